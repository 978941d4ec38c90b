"""Substreams in a running dataflow: gates that admit records, books that count them, and news of ends."""
