"""``tidewheel top``: a live view of running jobs in a terminal, made of their telemetry."""
