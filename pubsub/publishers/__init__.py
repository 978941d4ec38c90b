"""The publishers of topics: one actor a partition, its log and readers, and the ways of workers to it."""
