"""Substreams in a running dataflow: who counts what of them, who lets their records in, and who tells of their ends."""
