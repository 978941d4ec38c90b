"""Dataflow descriptions, tokens, workers and jobs."""
