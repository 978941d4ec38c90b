"""Subscriptions, and the readers that get messages from publishers and relays."""
