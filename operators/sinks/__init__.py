"""Sinks, the operators by which records leave a dataflow."""
