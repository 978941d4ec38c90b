"""The description of a dataflow, and the plan that workers receive."""
