"""The catalog of topics: who publishes them, what their records are, and how to watch them."""
