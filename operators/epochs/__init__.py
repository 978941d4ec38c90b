"""Operators on whole epochs, and state kept from one epoch to the next."""
