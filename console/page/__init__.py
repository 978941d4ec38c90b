"""The live page: a view of running jobs in a browser, made of their telemetry."""
