"""How a dataflow's inputs are fed: handles, each of which stands for a token, and what carries their commands."""
