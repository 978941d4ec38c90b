"""Collections that are kept up to date as their input changes."""
