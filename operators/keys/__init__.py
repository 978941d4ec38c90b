"""Which records belong together, and in which order they are."""
