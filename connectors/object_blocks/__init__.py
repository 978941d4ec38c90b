"""Rows in Ray's object store, block by block, owned by the driver or an actor: what Spark and Ray Data share."""
