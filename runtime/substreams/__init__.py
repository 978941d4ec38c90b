"""Substreams in a running dataflow: gates that let records in, books that count them, and news of their ends."""
