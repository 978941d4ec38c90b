"""Integers from zero, the default domain of epochs and of the rounds of a loop."""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidewheel.progress.time_domain import Summary, Time, TimeDomain


@dataclass(frozen=True, slots=True)
class IntegerDomain(TimeDomain):
    """The integers ``0 .. maximum`` in their usual order; a summary is the number that is added.

    >>> rounds = IntegerDomain(maximum=3)
    >>> rounds.results_in(1, 2)
    3
    >>> rounds.results_in(1, 3) is None
    True
    """

    maximum: int = 2**63 - 1

    def minimum(self) -> Time:
        """Return 0."""
        return 0

    def less_equal(self, a: Time, b: Time) -> bool:
        """Tell whether ``a <= b``."""
        return bool(a <= b)

    def comparison(self) -> Callable[[Time, Time], bool]:
        """Return ``<=``, unless a subclass compares in another way."""
        return operator.le if type(self).less_equal is IntegerDomain.less_equal else self.less_equal

    def in_order(self, times: Iterable[Time]) -> list[Time]:
        """Return the times sorted, unless a subclass compares in another way."""
        return sorted(times) if type(self).less_equal is IntegerDomain.less_equal else TimeDomain.in_order(self, times)

    def identity(self) -> Summary:
        """Return 0."""
        return 0

    def results_in(self, summary: Summary, time: Time) -> Time | None:
        """Return ``time + summary``, None past the maximum."""
        result = time + summary
        return result if result <= self.maximum else None

    def followed_by(self, first: Summary, then: Summary) -> Summary | None:
        """Return ``first + then``, None past the maximum."""
        result = first + then
        return result if result <= self.maximum else None

    def summary_less_equal(self, a: Summary, b: Summary) -> bool:
        """Tell whether ``a <= b``."""
        return bool(a <= b)

    def contains(self, time: Time) -> bool:
        """Tell whether ``time`` is an integer (not a bool) from 0 to the maximum."""
        return isinstance(time, int) and not isinstance(time, bool) and 0 <= time <= self.maximum
