"""Sinks: operators by which records leave a dataflow."""
