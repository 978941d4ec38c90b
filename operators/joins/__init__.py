"""Joins of records and of tables."""
