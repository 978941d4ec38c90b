"""State that survives a restart: shards, keyed state, and the cut of a worker."""
