"""Relays of topics: actors between publishers and many subscribers."""
