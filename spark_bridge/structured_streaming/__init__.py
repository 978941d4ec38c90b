"""Structured Streaming: queries that feed dataflows, and folders of epochs that Spark reads."""
