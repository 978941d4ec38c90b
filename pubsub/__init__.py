"""Live topics: every output of a dataflow can be published, and anybody in the cluster can subscribe to it."""
