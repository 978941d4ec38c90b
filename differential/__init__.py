"""Differential dataflow without I/O: updates in columns, arrangements of them, and what operators compute from these."""
