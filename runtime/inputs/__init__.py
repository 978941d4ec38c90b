"""The inputs of a dataflow: handles, each of which holds a token, and the feeds that carry their commands."""
