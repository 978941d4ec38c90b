"""Ranges of ticks for Hypothesis, and the plain sets of numbers that they stand for."""

from collections.abc import Iterable

from hypothesis import strategies as st

from tidewheel.pubsub.messages.tick_set import FOREVER, TickRange

BEYOND = 12
"""The one number that stands for itself and all greater ones, so that an open end is an end like any other."""

TICKS = range(BEYOND + 1)

RANGES = st.tuples(st.integers(0, BEYOND), st.sampled_from([*TICKS, FOREVER])).filter(lambda pair: pair[0] <= pair[1])


def ticks_of(*ranges: TickRange) -> set[int]:
    """Return the ticks of ranges, from 0 up to `BEYOND`."""
    return {tick for first, end in ranges for tick in range(first, min(end, BEYOND + 1))}


def ranges_of(ticks: Iterable[int]) -> tuple[TickRange, ...]:
    """Return ticks as ranges: in order, none touching the next, and with an open end where `BEYOND` is among them."""
    chosen = set(ticks)
    firsts = sorted(tick for tick in chosen if tick - 1 not in chosen)
    lasts = sorted(tick for tick in chosen if tick + 1 not in chosen)
    return tuple((first, FOREVER if last == BEYOND else last + 1) for first, last in zip(firsts, lasts, strict=True))
