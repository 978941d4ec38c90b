"""Collections, which are kept up to date as their input changes."""
