"""The metrics of jobs, made of their telemetry: the document with which a job describes itself once a second."""
