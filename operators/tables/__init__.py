"""Operators that Arrow computes: expressions, schemas, groups."""
