"""Waiting in tests: for an event, with a deadline, never for a time."""

import threading
import time
from collections.abc import Callable

WITHIN_S = 30.0


def eventually(condition: Callable[[], bool], within_s: float = WITHIN_S) -> bool:
    """Poll until ``condition()`` is true, ``within_s`` seconds at most; return whether it was.

    A condition that takes long is asked less often, so that it does not take the core from what it waits for.
    """
    deadline_s = time.monotonic() + within_s
    pause = threading.Event()
    asked_s = time.monotonic()
    while not condition():
        now_s = time.monotonic()
        if now_s > deadline_s:
            return False
        pause.wait(min(max(0.02, 2 * (now_s - asked_s)), 0.2))
        asked_s = time.monotonic()
    return True
