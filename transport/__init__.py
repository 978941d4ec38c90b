"""Everything between processes that knows nothing of dataflows: batches, pickling, order, keys and sockets."""
