"""Exactly-once delivery: a log at the publisher, and soft state everywhere else. Machines without I/O."""
