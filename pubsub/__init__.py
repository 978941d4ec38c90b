"""Live topics: a dataflow can publish every output, and any process of the cluster can subscribe to it."""
