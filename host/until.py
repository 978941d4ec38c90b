"""Waiting, with a deadline, for a condition that has no event."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_EVERY_S = 0.1


def until(
    condition: Callable[[], T],
    *,
    within_s: float,
    every_s: float = _EVERY_S,
    error: Callable[[], Exception] | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Call a condition until it returns a true value; return the value.

    Use it only where no event, queue or future reports the condition.

    Args:
        condition: called at once, after each pause, and for the last time at the deadline.
        within_s: the deadline, in seconds from now.
        every_s: the pause between two calls, in seconds.
        error: makes the error at the deadline; by default, `until` returns the last value.
        clock: returns monotonic seconds.
        sleep: waits for some seconds.

    Raises:
        Exception: made by ``error``: the condition was not true in time.

    >>> numbers = iter([0, 0, 3])
    >>> until(lambda: next(numbers), within_s=5, every_s=0)
    3
    >>> until(lambda: 0, within_s=0)
    0
    """
    deadline_s = clock() + within_s
    while True:
        left_s = deadline_s - clock()
        if found := condition():
            return found
        if left_s <= 0:
            if error is not None:
                raise error()
            return found
        sleep(min(every_s, max(0.0, deadline_s - clock())))
