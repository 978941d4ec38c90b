"""The inputs of a dataflow: handles, each of which stands for a token, and the feeds that carry their commands."""
