"""Sources, from which the records of a dataflow come."""
