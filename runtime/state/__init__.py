"""State that survives a restart: operators' state, keyed state, and the cut of a worker."""
