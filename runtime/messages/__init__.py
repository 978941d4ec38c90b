"""The values that workers, driver and feeders exchange."""
