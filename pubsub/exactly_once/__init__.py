"""Exactly-once delivery: the publisher keeps a log; all other state can be lost and requested again. No I/O."""
