"""Exactly-once delivery: the publisher keeps a log; everything else can be lost and is asked for again. No I/O."""
