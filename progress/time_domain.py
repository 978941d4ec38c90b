"""One kind of time: its partial order, and how times change along a path.

A time is a plain hashable value. Python's own ``<=`` is never used on times, since on tuples it is lexicographic: every
comparison goes through the `TimeDomain` of the location where the time lives.

Source: seed "Progress Tracking", sections "Path Summaries" and "A Compiled Representation".
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

Time: TypeAlias = Any
"""A hashable value ordered by a `TimeDomain`."""

Summary: TypeAlias = Any
"""A hashable value that says how a time of one domain advances along a path within that domain."""


class TimeDomain(ABC):
    """A partial order of times with a least element, and the summaries that advance them.

    Laws, which ``tests/laws`` checks for every domain:

    - ``less_equal`` is reflexive, transitive and antisymmetric, and ``minimum()`` is below every time.
    - ``results_in(summary, time)`` is never below ``time`` and is monotone in ``time``.
    - ``followed_by`` is associative and ``results_in(followed_by(a, b), t) == results_in(b, results_in(a, t))``.
    - ``summary_less_equal(a, b)`` holds only if ``results_in(a, t) <= results_in(b, t)`` for every ``t``.
    - A summary that is not below ``identity()`` strictly advances every time.

    ``None`` from ``results_in`` or ``followed_by`` means that nothing passes that path.
    """

    __slots__ = ()

    @abstractmethod
    def minimum(self) -> Time:
        """Return the least time."""

    @abstractmethod
    def less_equal(self, a: Time, b: Time) -> bool:
        """Tell whether ``a`` is at or before ``b`` in the partial order."""

    def comparison(self) -> Callable[[Time, Time], bool]:
        """Return `less_equal` as a function, for who calls it often; a domain may know one that is faster."""
        return self.less_equal

    @abstractmethod
    def identity(self) -> Summary:
        """Return the summary that changes no time."""

    @abstractmethod
    def results_in(self, summary: Summary, time: Time) -> Time | None:
        """Return the least time at which ``time`` can come out of a path, None if it cannot pass."""

    @abstractmethod
    def followed_by(self, first: Summary, then: Summary) -> Summary | None:
        """Return the summary of the path ``first`` and after it ``then``, None if nothing passes both."""

    @abstractmethod
    def summary_less_equal(self, a: Summary, b: Summary) -> bool:
        """Tell whether ``a`` advances no time further than ``b`` does."""

    @abstractmethod
    def contains(self, time: Time) -> bool:
        """Tell whether ``time`` is a value of this domain, so that a wrong one is refused where it enters."""

    def less_than(self, a: Time, b: Time) -> bool:
        """Tell whether ``a`` is strictly before ``b``."""
        return bool(a != b and self.less_equal(a, b))

    def in_order(self, times: Iterable[Time]) -> list[Time]:
        """Return distinct times such that none comes before one that is less; O(n^2), for integers O(n log n).

        Of two that it puts in no order, the one that was given first comes first.
        """
        left, ordered = list(times), []
        while left:
            least = [time for time in left if not any(self.less_than(other, time) for other in left)]
            ordered += least
            left = [time for time in left if time not in least]
        return ordered
