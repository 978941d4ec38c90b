"""The ends of dataflows: brokers, databases, lake tables and Ray Datasets."""
