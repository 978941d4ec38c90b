"""Operators on single records and batches: they transform them, route them, or change their times."""
