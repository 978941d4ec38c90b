"""The topics that a job publishes: their descriptions and, while the job runs, their publishers."""
