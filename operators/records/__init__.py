"""Operators on single records and batches."""
