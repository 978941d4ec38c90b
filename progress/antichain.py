"""Antichains: sets of times, such as frontiers, in which no time is before another.

A `MutableAntichain` follows changing counts. Each time with a positive count is in the frontier, or in a tree below an
element of the frontier. A parent in such a tree is at or before its children. The trees need no other comparison, so
they serve any partial order. When an element leaves the frontier, the times directly below it are compared in pairs,
and then with the rest: a pairing heap, generalised to partial orders. A time whose count is no longer positive stays in
its tree until it would enter the frontier, or until such times are the majority.

Source: Fredman, Sedgewick, Sleator, Tarjan, "The pairing heap: a new form of self-adjusting heap", Algorithmica 1986.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tidewheel.progress.time_domain import Time, TimeDomain


class Antichain:
    """The minimal elements of a set of times: a lower bound on all of them. Immutable.

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
        """Return the antichain of ``times`` without comparing them: they must be distinct and unordered.

        ``less_equal`` is the domain's `comparison`, if the caller has it already.
        """
        antichain = cls(domain)
        antichain._elements = tuple(times)
        if less_equal is not None:
            antichain._less_equal = less_equal
        return antichain

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the elements only: the comparison may be a function of this process."""
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
        """Tell whether ``time`` can still occur: some element is at or before it."""
        less_equal = self._less_equal
        for element in self._elements:  # noqa: SIM110 - operators ask this for every time they hold, in every call
            if less_equal(element, time):
                return True
        return False

    def less_than(self, time: Time) -> bool:
        """Tell whether some element is strictly before ``time``."""
        return any(self._domain.less_than(element, time) for element in self._elements)

    def dominates(self, other: "Antichain") -> bool:
        """Tell whether every element of ``other`` is at or after some element of this one."""
        return all(self.less_equal(time) for time in other)

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


_FEW = 32
"""The trees may contain this many times without a positive count before `MutableAntichain` removes them."""


class MutableAntichain:
    """Counts of times, and their frontier: the minimal times with a positive count.

    A count may be negative for a while, since changes of different workers arrive in any order. A time with a negative
    count has no effect on the frontier.

    >>> from tidewheel.progress import IntegerDomain
    >>> counts = MutableAntichain(IntegerDomain())
    >>> counts.update([(3, 1), (5, 1)])
    [(3, 1)]
    >>> counts.update([(3, -1)])
    [(3, -1), (5, 1)]
    """

    __slots__ = ("_below", "_counts", "_frontier", "_less_equal", "_stale", "domain")

    def __init__(self, domain: TimeDomain) -> None:
        self.domain = domain
        self._less_equal = domain.comparison()
        self._counts: dict[Time, int] = {}
        self._frontier: dict[Time, None] = {}
        self._below: dict[Time, list[Time]] = {}
        self._stale = 0

    def update(self, changes: Iterable[tuple[Time, int]]) -> list[tuple[Time, int]]:
        """Apply signed changes; return the frontier's changes: +1 for a time that enters, -1 for a time that leaves.

        Complexity of each change: linear in the frontier; if an element leaves, also logarithmic in the counted times,
        amortised.
        """
        if len(self._counts) == 1 and (simple := self._replace_only(changes)) is not None:
            return simple
        entered, left = self._count(changes)
        if not (left or entered):
            return []
        if not entered and len(self._frontier) == 1 and (simple := self._lift_only(left[0])) is not None:
            return simple
        moved = self._replace(left, entered) if left else self._enter(entered)
        if self._stale > _FEW and 2 * self._stale > len(self._below):
            self._remove_stale()
        return moved

    def _replace_only(self, changes: Iterable[tuple[Time, int]]) -> list[tuple[Time, int]] | None:
        if type(changes) is not list or len(changes) != 2:
            return None
        (old, _), (new, _) = changes if changes[0][1] < 0 else changes[::-1]
        if changes[0][1] + changes[1][1] or self._counts.get(old) != 1 or self._below[old] or old == new:
            return None
        difference = [(old, -1), (new, 1)]
        if difference != changes and difference != changes[::-1]:
            return None
        self._counts = {new: 1}
        self._frontier = {new: None}
        self._below = {new: []}
        return difference

    def _lift_only(self, old: Time) -> list[tuple[Time, int]] | None:
        below = self._below[old]
        if self._counts.get(old, 0) > 0 or len(below) != 1 or self._counts.get(below[0], 0) <= 0:
            return None
        del self._below[old]
        self._frontier = {below[0]: None}
        return [(old, -1), (below[0], 1)]

    def _count(self, changes: Iterable[tuple[Time, int]]) -> tuple[list[Time], list[Time]]:
        counts, frontier, below = self._counts, self._frontier, self._below
        entered: list[Time] = []
        left: list[Time] = []
        for time, difference in changes:
            before = counts.get(time, 0)
            after = before + difference
            if after:
                counts[time] = after
            elif before:
                del counts[time]
            if before <= 0 < after:
                if time not in below:
                    entered.append(time)
                elif time not in frontier:
                    self._stale -= 1
            elif after <= 0 < before:
                if time in frontier:
                    left.append(time)
                elif time in below:
                    self._stale += 1
        return entered, left

    def _enter(self, entered: list[Time]) -> list[tuple[Time, int]]:
        old: dict[Time, None] | None = None
        for time in entered:
            if self._counts.get(time, 0) <= 0 or time in self._below:
                continue
            self._below[time] = []
            if not self._hang_below_frontier(time):
                if old is None:
                    old = self._frontier.copy()
                self._lay_at_bottom(time)
        return [] if old is None else self._difference(old)

    def _replace(self, left: list[Time], entered: list[Time]) -> list[tuple[Time, int]]:
        old = self._frontier.copy()
        loose: list[Time] = []
        for time in left:
            if self._counts.get(time, 0) <= 0 and time in self._frontier:
                del self._frontier[time]
                loose += self._below.pop(time)
        for time in entered:
            if self._counts.get(time, 0) > 0 and time not in self._below:
                self._below[time] = []
                self._hang(time)
        if loose:
            for time in self._paired(self._counted(loose)):
                self._hang(time)
        return self._difference(old)

    def _counted(self, loose: list[Time]) -> list[Time]:
        found: list[Time] = []
        while loose:
            time = loose.pop()
            if self._counts.get(time, 0) > 0:
                found.append(time)
            else:
                loose += self._below.pop(time)
                self._stale -= 1
        return found

    def _paired(self, times: list[Time]) -> list[Time]:
        less_equal, below = self._less_equal, self._below
        tops = times[len(times) - len(times) % 2 :]
        for index in range(0, len(times) - 1, 2):
            a, b = times[index], times[index + 1]
            if less_equal(a, b):
                below[a].append(b)
                tops.append(a)
            elif less_equal(b, a):
                below[b].append(a)
                tops.append(b)
            else:
                tops += (a, b)
        return tops

    def _hang(self, time: Time) -> None:
        if not self._hang_below_frontier(time):
            self._lay_at_bottom(time)

    def _hang_below_frontier(self, time: Time) -> bool:
        less_equal = self._less_equal
        for element in self._frontier:
            if less_equal(element, time):
                self._below[element].append(time)
                return True
        return False

    def _lay_at_bottom(self, time: Time) -> None:
        less_equal, frontier = self._less_equal, self._frontier
        for element in [element for element in frontier if less_equal(time, element)]:
            del frontier[element]
            self._below[time].append(element)
        frontier[time] = None

    def _remove_stale(self) -> None:
        counts, below = self._counts, self._below
        for time in [time for time in below if counts.get(time, 0) > 0]:
            if any(counts.get(later, 0) <= 0 for later in below[time]):
                below[time] = self._counted(below[time])

    def _difference(self, old: dict[Time, None]) -> list[tuple[Time, int]]:
        gone = [(time, -1) for time in old if time not in self._frontier]
        return gone + [(time, 1) for time in self._frontier if time not in old]

    @property
    def frontier(self) -> Antichain:
        """The minimal times with a positive count."""
        return Antichain.from_minimal(self.domain, self._frontier, self._less_equal)

    def less_equal(self, time: Time) -> bool:
        """Tell whether a time with a positive count is at or before ``time``."""
        less_equal = self._less_equal
        for element in self._frontier:  # noqa: SIM110 - any() with a generator costs several times as much
            if less_equal(element, time):
                return True
        return False

    def elements(self) -> Iterable[Time]:
        """Return the elements of the frontier, valid until the counts change."""
        return self._frontier

    def count(self, time: Time) -> int:
        """Return the count of a time, 0 if it has none."""
        return self._counts.get(time, 0)

    def counts(self) -> Iterator[tuple[Time, int]]:
        """Iterate over the counted times, negative counts included."""
        return iter(self._counts.items())

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return f"MutableAntichain({self._counts!r})"
