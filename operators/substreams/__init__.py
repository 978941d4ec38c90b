"""Operators of substreams: they assign keys to records, and act when a substream has ended."""
