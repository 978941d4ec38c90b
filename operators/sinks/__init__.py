"""Where records go to."""
