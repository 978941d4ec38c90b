"""Blocks of rows in Ray's object store, owned by the driver or an actor; the common part of Spark and Ray Data."""
