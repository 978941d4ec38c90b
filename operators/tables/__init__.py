"""Operators computed by Arrow: expressions, schemas, groups."""
