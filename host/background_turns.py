"""Background work on an event loop: it gets a share of the loop's time, in short turns.

Long work is cut into turns of a few milliseconds, which take 1/`SHARE` of a busy loop's time. They take 1/`SMALL_SHARE`
if the machine has no free core: then the processes that the turns wake take time from the loop too.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

SHARE: Final = 8
"""Turns take a busy loop's time divided by this number."""

SMALL_SHARE: Final = 24
"""The same while threads wait for cores. Three readers far behind then cost a job on two cores a fifth of its rate."""

MOST_WAIT_S: Final = 0.5
"""The longest wait between turns, in seconds. A wait grows with the last turn, which an overloaded machine delays."""

_SHORT: Final = 0.2
"""Cores are scarce if the loop's thread has lately spent more than this part of its runnable time waiting for one."""

_SCHEDULED: Final = Path("/proc/thread-self/schedstat")


def time_scheduled() -> tuple[int, int]:
    """Return how many nanoseconds this thread has run, and how many it has waited for a core; zeros if unknown.

    Source: "Scheduler Statistics" in the documentation of the Linux kernel.
    """
    try:
        ran, waited, _ = _SCHEDULED.read_bytes().split()
    except (OSError, ValueError):
        return 0, 0
    return int(ran), int(waited)


class BackgroundTurns:
    """Runs one kind of work in turns on an event loop.

    Args:
        loop: the event loop; call all methods on its thread.
        turn: does a piece of the work; returns whether there is more.
        progress: returns a number that changes when the loop does other work.
        scheduled: returns how long the loop's thread has run, and how long it has waited for a core; see
            `time_scheduled`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        turn: Callable[[], bool],
        progress: Callable[[], object],
        scheduled: Callable[[], tuple[int, int]] = time_scheduled,
    ) -> None:
        self._loop = loop
        self._turn = turn
        self._progress = progress
        self._scarcity = CoreScarcity(scheduled)
        self._last_progress: object = None
        self._next: asyncio.Handle | None = None
        self._next_s = 0.0

    def wake(self) -> None:
        if self._next is None:
            wait_s = self._next_s - self._loop.time()
            later = self._loop.call_soon if wait_s <= 0 else partial(self._loop.call_later, wait_s)
            self._next = later(self._take)

    def _take(self) -> None:
        self._next = None
        began_s = self._loop.time()
        try:
            is_more = self._turn()
        finally:
            ended_s = self._loop.time()
            progress = self._progress()
            is_busy, self._last_progress = progress != self._last_progress, progress
            share = SMALL_SHARE if self._scarcity.look() else SHARE
            self._next_s = ended_s + min(MOST_WAIT_S, (ended_s - began_s) * (share - 1)) * is_busy
        if is_more:
            self.wake()

    def close(self) -> None:
        if self._next is not None:
            self._next.cancel()


class CoreScarcity:
    """Tells whether a thread has lately waited for a core; each call halves the weight of earlier waits.

    >>> times = iter([(0, 0), (10, 0), (20, 30), (60, 30), (160, 30)])
    >>> scarcity = CoreScarcity(lambda: next(times))
    >>> [scarcity.look() for _ in range(4)]
    [False, True, True, False]
    """

    def __init__(self, scheduled: Callable[[], tuple[int, int]]) -> None:
        self._scheduled = scheduled
        self._seen = scheduled()
        self._ran = self._waited = 0.0

    def look(self) -> bool:
        before, self._seen = self._seen, self._scheduled()
        self._ran = self._ran / 2 + self._seen[0] - before[0]
        self._waited = self._waited / 2 + self._seen[1] - before[1]
        return self._waited > _SHORT * (self._ran + self._waited)
