"""Connections between processes, without dataflows: batches, pickles, frames, links and sockets."""
