"""The two engines that run a dataflow: Ray actors, or one process."""
