"""Keys and orders of records."""
