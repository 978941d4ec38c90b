"""The machines of best-effort delivery, without I/O: publisher, subscriber, and what lies between them."""
