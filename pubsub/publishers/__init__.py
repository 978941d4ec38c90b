"""The actors that publish topics, the ways of workers to them, and the running publications of a job."""
