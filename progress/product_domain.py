"""Pairs of times in product order: the times inside a loop, ``(outer, round)``."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidewheel.progress.time_domain import Summary, Time, TimeDomain


@dataclass(frozen=True, slots=True)
class ProductDomain(TimeDomain):
    """Pairs ``(outer, inner)``, one at or before another when both coordinates are; a summary is a pair of summaries.

    >>> from tidewheel.progress import IntegerDomain
    >>> loop = ProductDomain(IntegerDomain(), IntegerDomain())
    >>> loop.less_equal((0, 5), (1, 2)), (0, 5) <= (1, 2)
    (False, True)
    """

    outer: TimeDomain
    inner: TimeDomain

    def minimum(self) -> Time:
        """Return the pair of minima."""
        return (self.outer.minimum(), self.inner.minimum())

    def less_equal(self, a: Time, b: Time) -> bool:
        """Tell whether ``a`` is at or before ``b`` in both coordinates."""
        return self.outer.less_equal(a[0], b[0]) and self.inner.less_equal(a[1], b[1])

    def comparison(self) -> Callable[[Time, Time], bool]:
        """Return a function that compares both coordinates by the comparisons of their domains."""
        if type(self).less_equal is not ProductDomain.less_equal:  # a subclass compares in another way
            return self.less_equal
        outer, inner = self.outer.comparison(), self.inner.comparison()
        return lambda a, b: outer(a[0], b[0]) and inner(a[1], b[1])

    def in_order(self, times: Iterable[Time]) -> list[Time]:
        """Return the times sorted by the first coordinate's order and then by the second's."""
        if type(self).less_equal is not ProductDomain.less_equal:
            return TimeDomain.in_order(self, times)
        given = list(times)
        outer, inner = (
            {time: rank for rank, time in enumerate(domain.in_order(dict.fromkeys(pair[at] for pair in given)))}
            for at, domain in enumerate((self.outer, self.inner))
        )
        return sorted(given, key=lambda pair: (outer[pair[0]], inner[pair[1]]))

    def identity(self) -> Summary:
        """Return the pair of identities."""
        return (self.outer.identity(), self.inner.identity())

    def results_in(self, summary: Summary, time: Time) -> Time | None:
        """Return ``time`` advanced in both coordinates, None if either does not pass."""
        outer = self.outer.results_in(summary[0], time[0])
        inner = self.inner.results_in(summary[1], time[1])
        return None if outer is None or inner is None else (outer, inner)

    def followed_by(self, first: Summary, then: Summary) -> Summary | None:
        """Return the pair of combined summaries, None if nothing passes either."""
        outer = self.outer.followed_by(first[0], then[0])
        inner = self.inner.followed_by(first[1], then[1])
        return None if outer is None or inner is None else (outer, inner)

    def summary_less_equal(self, a: Summary, b: Summary) -> bool:
        """Tell whether ``a`` is at or below ``b`` in both coordinates."""
        return self.outer.summary_less_equal(a[0], b[0]) and self.inner.summary_less_equal(a[1], b[1])

    def contains(self, time: Time) -> bool:
        """Tell whether ``time`` is a pair of times of the two domains."""
        pair = isinstance(time, tuple) and len(time) == 2
        return pair and self.outer.contains(time[0]) and self.inner.contains(time[1])
