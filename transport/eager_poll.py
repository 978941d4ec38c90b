"""The waiting of threads that exchange messages at a high rate: workers, publishers and subscribers.

Linux wakes a thread on the core of the thread that sends to it, and a sleeping virtual core takes tens of microseconds
to resume. So threads that sleep in each wait may share one core while another is idle. A thread whose last waits were
short therefore polls for a moment before it sleeps: a running thread gets its own core.

Between polls the thread lets others run, and it sleeps if one of them runs for long. So it takes no core from another
thread.
"""

import asyncio
import os
import select
from collections.abc import Callable
from time import perf_counter
from typing import Final

SHORT_S: Final = 0.001
"""How long a thread polls before it sleeps, by default, in seconds."""

_LONG: Final = 4
"""A long wait counts as this many short ones. So a thread does not poll where long and very short waits alternate."""

_CONTENDED_S: Final = 100e-6
"""If the time between two polls is longer than this, in seconds, another thread runs."""

_waiting: Final[set[int]] = set()
"""The ids of the `EagerPoll` objects with which threads of this process are waiting."""


class EagerPoll:
    """Waits until descriptors become readable.

    The calling thread polls for a moment before it sleeps, if its last waits were short and no other thread of the
    process is in `poll`.

    Args:
        short_s: how many seconds to poll, if waits have lately been shorter than that on average.
    """

    def __init__(self, short_s: float = SHORT_S) -> None:
        self._poll = select.poll()
        self._short_s = short_s
        self._usual_s = self._longest_s = short_s * _LONG

    def register(self, descriptor: int, events: int = select.POLLIN) -> None:
        self._poll.register(descriptor, events)

    def poll(self, timeout_ms: int | None) -> list[tuple[int, int]]:
        """Return the ready descriptors with their events; empty after ``timeout_ms``."""
        found = self._poll.poll(0)
        if found or timeout_ms == 0:
            return found
        began_s = perf_counter()
        _waiting.add(id(self))
        try:
            if self._usual_s < self._short_s and len(_waiting) == 1:
                found = self._look(self._short_s if timeout_ms is None else min(self._short_s, timeout_ms / 1000))
            if not found:
                found = self._poll.poll(timeout_ms)
        finally:
            _waiting.discard(id(self))
        self._usual_s = (self._usual_s + min(perf_counter() - began_s, self._longest_s)) / 2
        return found

    def _look(self, for_s: float) -> list[tuple[int, int]]:
        poll = self._poll.poll
        now_s = perf_counter()
        until_s = now_s + for_s
        while now_s < until_s:
            os.sched_yield()
            found = poll(0)
            if found:
                return found
            before_s, now_s = now_s, perf_counter()
            if now_s - before_s > _CONTENDED_S:
                break
        return []


class EagerLoop:
    """Makes an asyncio loop poll for the next message before it sleeps, if its last waits were short.

    Args:
        short_s: how many seconds to poll; 0 turns polling off.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Callable[[], None], short_s: float = SHORT_S) -> None:
        self._loop = loop
        self._receive = receive
        self._short_s = short_s
        self._usual_s = self._longest_s = short_s * _LONG
        self._done_s = 0.0
        self._is_looking = False

    def readable(self) -> None:
        """Receive the messages that have arrived, and poll for more.

        The loop calls this when the socket is readable.
        """
        self._usual_s = (self._usual_s + min(perf_counter() - self._done_s, self._longest_s)) / 2
        self._receive()
        self._done_s = perf_counter()
        if not self._is_looking and self._usual_s < self._short_s:
            self._is_looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        before_s = perf_counter()
        os.sched_yield()
        now_s = perf_counter()
        self._is_looking = now_s - before_s <= _CONTENDED_S and now_s - self._done_s < self._short_s
        if self._is_looking:
            self._loop.call_soon(self._look)
