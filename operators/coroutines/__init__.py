"""Calls that wait for something outside."""
