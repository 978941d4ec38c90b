"""Antichains: sets of times no two of which are ordered, which is what a frontier is."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tidewheel.progress.time_domain import Time, TimeDomain


class Antichain:
    """The minimal elements of a set of times: a lower bound on every time in it. Immutable.

    Iteration is in order of insertion; equality is equality of sets.

    >>> from tidewheel.progress import IntegerDomain, ProductDomain
    >>> loop = ProductDomain(IntegerDomain(), IntegerDomain())
    >>> frontier = Antichain(loop, [(1, 1), (0, 4), (2, 2)])
    >>> frontier
    Antichain({(1, 1), (0, 4)})
    >>> frontier.less_equal((1, 3)), frontier.less_equal((0, 3))
    (True, False)
    """

    __slots__ = ("_domain", "_elements", "_less_equal")

    def __init__(self, domain: TimeDomain, times: Iterable[Time] = ()) -> None:
        self._domain = domain
        self._less_equal: Callable[[Time, Time], bool] = domain.less_equal
        self._elements: tuple[Time, ...] = ()
        for time in times:
            self._insert(time)

    @classmethod
    def from_minimal(
        cls, domain: TimeDomain, times: Iterable[Time], less_equal: Callable[[Time, Time], bool] | None = None
    ) -> "Antichain":
        """Return the antichain of ``times`` that are known to be distinct and unordered, without comparing them.

        ``less_equal`` is the domain's `comparison`, where there is one already.
        """
        antichain = cls(domain)
        antichain._elements = tuple(times)
        if less_equal is not None:
            antichain._less_equal = less_equal
        return antichain

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the comparison, which may be a function of this process."""
        return Antichain.from_minimal, (self._domain, self._elements)

    def _insert(self, time: Time) -> None:
        if not self.less_equal(time):
            rest = (element for element in self._elements if not self._domain.less_equal(time, element))
            self._elements = (*rest, time)

    @property
    def domain(self) -> TimeDomain:
        """The order of the elements."""
        return self._domain

    def less_equal(self, time: Time) -> bool:
        """Tell whether some element is at or before ``time``: whether ``time`` can still occur."""
        less_equal = self._less_equal
        for element in self._elements:  # noqa: SIM110 - operators ask this for every time they hold, in every call
            if less_equal(element, time):
                return True
        return False

    def less_than(self, time: Time) -> bool:
        """Tell whether some element is strictly before ``time``: whether an earlier time can still occur."""
        return any(self._domain.less_than(element, time) for element in self._elements)

    def dominates(self, other: "Antichain") -> bool:
        """Tell whether every element of ``other`` is at or after some element of this one."""
        return all(self.less_equal(time) for time in other)

    def with_time(self, time: Time) -> "Antichain":
        """Return the antichain of the minimal elements of this one and ``time``."""
        return Antichain(self._domain, (*self._elements, time))

    def __iter__(self) -> Iterator[Time]:
        return iter(self._elements)

    def __len__(self) -> int:
        return len(self._elements)

    def __contains__(self, time: Time) -> bool:
        return time in self._elements

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Antichain):
            return NotImplemented
        return set(self._elements) == set(other._elements)

    def __hash__(self) -> int:
        return hash(frozenset(self._elements))

    def __repr__(self) -> str:
        return f"Antichain({{{', '.join(map(repr, self._elements))}}})"
