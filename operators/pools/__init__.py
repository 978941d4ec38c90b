"""Pools of actors, each with a model, that the workers of a job call."""
