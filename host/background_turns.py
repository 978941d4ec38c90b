"""Work that may wait while a loop has other things to do: it gets a share of the loop's time, in short turns.

A loop that does all its work in the order in which it comes does nothing else during a long piece. So the long piece is
cut into turns of a few milliseconds. After each turn the loop does what else has come, and then waits: the turns
together take one `SHARE`th of the time. A loop that has nothing else to do does not wait.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

SHARE: Final = 8
"""The turns take one part in so many of the time of a busy loop."""


class BackgroundTurns:
    """The turns of one kind of work on a loop.

    Args:
        loop: the loop, on whose thread all calls are.
        turn: does a piece of the work; returns whether there is more.
        progress: returns a number that changes as the loop does its other work.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, turn: Callable[[], bool], progress: Callable[[], object]
    ) -> None:
        self._loop = loop
        self._turn = turn
        self._progress = progress
        self._last_progress: object = None
        self._next: asyncio.Handle | None = None
        self._next_s = 0.0

    def wake(self) -> None:
        """Have the next turn taken when it is due: there is work."""
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
            self._next_s = ended_s + (ended_s - began_s) * (SHARE - 1) * is_busy
        if is_more:
            self.wake()

    def close(self) -> None:
        """Take no more turns."""
        if self._next is not None:
            self._next.cancel()
