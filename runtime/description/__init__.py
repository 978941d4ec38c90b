"""The description of a dataflow, and the plan that workers get of it."""
