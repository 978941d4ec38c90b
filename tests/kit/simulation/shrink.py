"""Shrinking: a shorter list that still fails.

Source: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE TSE 2002 (ddmin).
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def shrink(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool], trials: int) -> list[Item]:
    """Return a part of ``items``, in the same order, that still fails, after at most ``trials`` trials.

    Parts are left out, halves first and ever smaller ones; given enough trials, no single item can be left out of what
    is returned.

    >>> shrink(range(100), lambda items: 17 in items and 71 in items, trials=200)
    [17, 71]
    """
    best = list(items)
    size = max(1, len(best) // 2)
    while trials > 0 and best:
        start, smaller = 0, False
        while start < len(best) and trials > 0:
            candidate = best[:start] + best[start + size :]
            trials -= 1
            if fails(candidate):
                best, smaller = candidate, True
            else:
                start += size
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    return best
