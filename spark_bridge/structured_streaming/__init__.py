"""Structured Streaming: queries that feed dataflows, and epochs of dataflows as Spark writes and reads them."""
