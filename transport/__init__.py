"""Everything between processes that knows nothing of dataflows: batches, pickles, frames, links and sockets."""
