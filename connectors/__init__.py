"""Connectors: brokers, databases and lake tables as sources and sinks of dataflows."""
