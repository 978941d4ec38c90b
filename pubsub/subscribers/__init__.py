"""Subscriptions, and their readers of publishers and relays."""
