"""The base of all operators' methods, and how their state is divided among workers."""
