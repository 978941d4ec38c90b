"""Explanations and statistics of a running job."""
