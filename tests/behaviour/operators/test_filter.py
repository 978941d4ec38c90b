"""The filter operator."""
