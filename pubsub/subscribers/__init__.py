"""Subscriptions, and the readers that receive their messages from publishers and relays."""
