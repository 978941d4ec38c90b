"""The publishers of topics: one actor for each partition, its log and readers, and its connections to workers."""
