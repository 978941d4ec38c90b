"""Operators of substreams: where records get their keys, and what is done when a key has ended."""
