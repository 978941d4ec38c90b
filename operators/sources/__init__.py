"""Sources: where a dataflow gets its records."""
