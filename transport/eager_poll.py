"""The poll of a thread that exchanges messages with others in a tight loop.

Linux wakes a thread on the core of the thread that sent to it. Two threads that always sleep between messages can stay
on one core and run in turn, while another core is idle. So a poll whose last wait was short looks again and again for a
moment before it sleeps: a thread that looks is running, and gets a core of its own. One longer wait ends that, so an
idle process sleeps. Between two looks the thread lets others run, so it keeps no core from them.
"""

import os
import select
from time import perf_counter
from typing import Final

SHORT_S: Final = 200e-6
"""A shorter wait is short; a poll looks for so long before it sleeps."""


class EagerPoll:
    """Waits until descriptors become readable, for one thread at a time."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._last_wait_was_short = False

    def register(self, descriptor: int) -> None:
        """Wait for this descriptor, too."""
        self._poll.register(descriptor, select.POLLIN)

    def poll(self, timeout_ms: int) -> list[tuple[int, int]]:
        """Return the readable descriptors with their events; an empty list after ``timeout_ms`` milliseconds."""
        poll = self._poll.poll
        found = poll(0)
        if found or timeout_ms <= 0:
            return found
        began_s = perf_counter()
        if self._last_wait_was_short:
            while not found and perf_counter() - began_s < SHORT_S:
                os.sched_yield()
                found = poll(0)
        if not found:
            found = poll(timeout_ms)
        self._last_wait_was_short = perf_counter() - began_s < SHORT_S
        return found
