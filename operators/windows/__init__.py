"""Windows on event time."""
