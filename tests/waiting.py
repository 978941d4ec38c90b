"""Waiting in tests: for an event, with a deadline, never for a time."""

import threading
import time
from collections.abc import Callable

WITHIN_S = 10.0


def eventually(condition: Callable[[], bool], within_s: float = WITHIN_S) -> bool:
    """Poll until ``condition()`` is true, ``within_s`` seconds at most; return whether it was."""
    deadline_s = time.monotonic() + within_s
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        pause.wait(0.02)
    return True
