"""State that survives: shards, keyed state, and the cut of a worker."""
