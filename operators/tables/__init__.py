"""Operators on Arrow's kernels: expressions, schemas, groups."""
