"""The inputs of a dataflow: handles, which hold tokens, and the feeds that carry the handles' commands."""
