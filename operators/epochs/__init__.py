"""Operators on whole epochs, and on state that lasts from epoch to epoch."""
