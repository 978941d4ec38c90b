"""Operators of substreams: they give records their keys, and act when a substream has ended."""
