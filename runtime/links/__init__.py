"""What carries envelopes between workers: over Ray actor calls, or over sockets."""
