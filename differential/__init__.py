"""Differential dataflow without I/O: updates in columns, and their arrangements, joins and reductions."""
