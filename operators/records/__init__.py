"""Operators on single records and batches, where they go and at which times."""
