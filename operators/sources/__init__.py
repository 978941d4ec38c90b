"""Sources: where the records of a dataflow come from."""
