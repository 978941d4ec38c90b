"""Time domains: kinds of times, their partial order, and how times change along a path.

A time is a plain hashable value. Times are compared by the `TimeDomain` of their location, never by Python's ``<=``,
which is lexicographic on tuples. Epochs and rounds are integers by default; times inside a loop are pairs ``(outer,
round)``.

Source: seed "Progress Tracking", sections "Path Summaries" and "A Compiled Representation".
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias

Time: TypeAlias = Any
"""A hashable value ordered by a `TimeDomain`."""

Summary: TypeAlias = Any
"""A hashable value that says how a path within one domain advances times."""


class TimeDomain(ABC):
    """A partial order of times with a least element, and the summaries that advance them.

    Laws, which ``tests/laws`` checks for every domain:

    - ``less_equal`` is reflexive, transitive and antisymmetric, and ``minimum()`` is below every time.
    - ``results_in(summary, time)`` is never below ``time`` and is monotone in ``time``.
    - ``followed_by`` is associative and ``results_in(followed_by(a, b), t) == results_in(b, results_in(a, t))``.
    - ``summary_less_equal(a, b)`` holds only if ``results_in(a, t) <= results_in(b, t)`` for every ``t``.
    - A summary that is not below ``identity()`` strictly advances every time.

    ``None`` from ``results_in`` or ``followed_by`` means that no time passes the path.
    """

    __slots__ = ()

    @abstractmethod
    def minimum(self) -> Time:
        """Return the least time."""

    @abstractmethod
    def less_equal(self, a: Time, b: Time) -> bool:
        """Tell whether ``a`` is at or before ``b`` in the partial order."""

    def comparison(self) -> Callable[[Time, Time], bool]:
        """Return `less_equal`, or a faster function that does the same, for frequent calls."""
        return self.less_equal

    @abstractmethod
    def identity(self) -> Summary:
        """Return the summary that changes no time."""

    @abstractmethod
    def results_in(self, summary: Summary, time: Time) -> Time | None:
        """Return the least time at which ``time`` can leave a path; None if it cannot pass."""

    @abstractmethod
    def followed_by(self, first: Summary, then: Summary) -> Summary | None:
        """Return the summary of the path ``first`` followed by ``then``, None if no time passes both."""

    @abstractmethod
    def summary_less_equal(self, a: Summary, b: Summary) -> bool:
        """Tell whether ``a`` advances every time at most as far as ``b`` does."""

    @abstractmethod
    def contains(self, time: Time) -> bool:
        """Tell whether ``time`` is a value of this domain."""

    def describe(self) -> str:
        """Describe the times in words, for messages."""
        return f"values such as {self.minimum()!r}"

    def plain(self, time: Time) -> Time:
        """Return the stored form of ``time``: whole numbers as ``int``."""
        return time

    def less_than(self, a: Time, b: Time) -> bool:
        """Tell whether ``a`` is strictly before ``b``."""
        return bool(a != b and self.less_equal(a, b))

    @property
    def is_lexicographic(self) -> bool:
        """True if `in_order` sorts like Python's ``<``, as for integers and nested pairs of integers."""
        return False

    def in_order(self, times: Iterable[Time]) -> list[Time]:
        """Return distinct times so that lesser times come first; O(n^2), for integers O(n log n).

        Two unordered times keep their order.
        """
        if self.is_lexicographic:
            return sorted(times)
        left, ordered = list(times), []
        while left:
            least = [time for time in left if not any(self.less_than(other, time) for other in left)]
            ordered += least
            left = [time for time in left if time not in least]
        return ordered


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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.maximum == 2**63 - 1 else f'maximum={self.maximum}'})"

    def minimum(self) -> Time:
        """Return 0."""
        return 0

    def less_equal(self, a: Time, b: Time) -> bool:
        """Tell whether ``a <= b``."""
        return bool(a <= b)

    def comparison(self) -> Callable[[Time, Time], bool]:
        """Return ``<=``, unless a subclass compares in another way."""
        return operator.le if type(self).less_equal is IntegerDomain.less_equal else self.less_equal

    @property
    def is_lexicographic(self) -> bool:
        """True, unless a subclass compares in another way."""
        return type(self).less_equal is IntegerDomain.less_equal

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
        """Tell whether ``time`` is a whole number of any type but bool, from 0 to the maximum."""
        is_whole = type(time) is int or (isinstance(time, Integral) and not isinstance(time, bool))
        return is_whole and 0 <= time <= self.maximum

    def describe(self) -> str:
        """Return the range."""
        return f"whole numbers from 0 to {'2^63 - 1' if self.maximum == 2**63 - 1 else self.maximum}"

    def plain(self, time: Time) -> Time:
        """Return the number as an ``int``."""
        return int(time)


@dataclass(frozen=True, slots=True)
class ProductDomain(TimeDomain):
    """Pairs ``(outer, inner)``, ordered if both coordinates are; a summary is a pair of summaries.

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
        """Return a function that compares both coordinates by their domains' comparisons."""
        if type(self).less_equal is not ProductDomain.less_equal:  # a subclass compares in another way
            return self.less_equal
        outer, inner = self.outer.comparison(), self.inner.comparison()
        if inner is not operator.le:
            return lambda a, b: outer(a[0], b[0]) and inner(a[1], b[1])
        if outer is not operator.le:
            return lambda a, b: a[1] <= b[1] and outer(a[0], b[0])
        return lambda a, b: a[0] <= b[0] and a[1] <= b[1]

    @property
    def is_lexicographic(self) -> bool:
        """True if both coordinates are lexicographic, unless a subclass compares in another way."""
        is_plain = type(self).less_equal is ProductDomain.less_equal
        return is_plain and self.outer.is_lexicographic and self.inner.is_lexicographic

    def in_order(self, times: Iterable[Time]) -> list[Time]:
        """Return the times sorted by the first coordinate, then by the second."""
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
        """Return ``time`` advanced in both coordinates, None if one of them cannot pass."""
        outer = self.outer.results_in(summary[0], time[0])
        inner = self.inner.results_in(summary[1], time[1])
        return None if outer is None or inner is None else (outer, inner)

    def followed_by(self, first: Summary, then: Summary) -> Summary | None:
        """Return the pair of combined summaries, None if no time passes one of them."""
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

    def describe(self) -> str:
        """Describe both coordinates."""
        return f"pairs of {self.outer.describe()} and {self.inner.describe()}"

    def plain(self, time: Time) -> Time:
        """Return the pair of plain times."""
        return (self.outer.plain(time[0]), self.inner.plain(time[1]))


@dataclass(frozen=True, slots=True)
class UnitDomain(TimeDomain):
    """One time, the empty tuple, and one summary, which changes nothing.

    >>> UnitDomain().less_equal((), ())
    True
    """

    def minimum(self) -> Time:
        """Return the only time."""
        return ()

    def less_equal(self, a: Time, b: Time) -> bool:
        """Tell that the only time is at or before itself."""
        return True

    def identity(self) -> Summary:
        """Return the only summary."""
        return ()

    def results_in(self, summary: Summary, time: Time) -> Time | None:
        """Return the only time."""
        return ()

    def followed_by(self, first: Summary, then: Summary) -> Summary | None:
        """Return the only summary."""
        return ()

    def summary_less_equal(self, a: Summary, b: Summary) -> bool:
        """Tell that the only summary is at or below itself."""
        return True

    def contains(self, time: Time) -> bool:
        """Tell whether ``time`` is the empty tuple."""
        return bool(time == ())
