"""The metrics of jobs, made from telemetry, the document with which a job describes itself once a second."""
