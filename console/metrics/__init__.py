"""The telemetry of jobs as topics: the document by which a job describes itself, once a second."""
