"""Operators that treat single records and batches, route them, or change their times."""
