"""Best-effort delivery without I/O: publisher, subscriber, and the queues between them."""
