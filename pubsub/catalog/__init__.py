"""The catalog of topics: their publishers, schemas, and watches."""
