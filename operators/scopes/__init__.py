"""Scopes: entering, leaving and closing a loop."""
