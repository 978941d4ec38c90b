"""Operators that asked to be scheduled after some time."""

import heapq
from collections import deque
from collections.abc import Callable, Iterator


class Timers:
    """When operators, by number, are to be scheduled.

    Args:
        clock: returns seconds, from any start.
        wake: called when an operator asks; the worker may be asleep.
    """

    def __init__(self, clock: Callable[[], float], wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self._clock = clock
        self._asked: deque[tuple[float, int]] = deque()
        self._waiting: list[tuple[float, int]] = []

    def set(self, operator: int, seconds: float) -> None:
        """Have an operator scheduled so many seconds from now; from any thread."""
        self._asked.append((self._clock() + seconds, operator))
        self._wake()

    def pop_due(self) -> Iterator[int]:
        """Take the operators whose time has come."""
        self._sort_in()
        while self._waiting and self._waiting[0][0] <= self._clock():
            yield heapq.heappop(self._waiting)[1]

    def left_s(self) -> float | None:
        """Return how many seconds are left until the next time, 0 if it has come; None if nothing waits."""
        self._sort_in()
        return max(0.0, self._waiting[0][0] - self._clock()) if self._waiting else None

    def _sort_in(self) -> None:
        while self._asked:
            heapq.heappush(self._waiting, self._asked.popleft())
