"""The ends of dataflows: brokers, databases and lake tables."""
