"""Batches of records: lists, Arrow tables and NumPy arrays, their length, slices and bytes."""
