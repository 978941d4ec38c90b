"""Joining a cluster, which is one thing for the whole process, whichever layer does it first."""

import threading

JOINING = threading.Lock()
"""Held while this process finds out whether it is part of a cluster, and joins one.

Ray is not made for two threads that do so at once: one of them fails, or goes on with half a connection.
"""
