"""The document by which a job describes itself, and the thread that makes it while there are listeners."""
