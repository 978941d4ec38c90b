"""Differential dataflow without I/O: updates in columns, arrangements of them, joins and reductions."""
