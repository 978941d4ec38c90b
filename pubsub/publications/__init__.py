"""The topics that a job publishes: their descriptions, and their publishers while the job runs."""
