"""Net changes of counts, and the batch of changes that a worker holds back.

A worker holds back progress that cannot move any frontier, and merges it with later progress. It sends all its changes
once they remove a pointstamp that may be the last to hold a frontier back. It need not send them while

- they only add pointstamps: these come from tokens that every view counts, so no frontier has passed them; or
- each removed pointstamp is covered: a frontier before it shows an earlier pointstamp, which holds back the same
  frontiers.

No change is held for ever. Suppose that workers hold batches and nothing moves. Among the pointstamps that a worker has
removed and the views still count, take an earliest, A. An earlier pointstamp, B, covers A. So no worker has removed B,
which holds back the same frontiers as A: none of them is late. When a covering frontier moves, the worker checks the
covered changes again.

Source: demand-driven progress batches in timely dataflow; the rule and its proof are ours.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeAlias, TypeVar

from tidewheel.progress.time_domain import Time
from tidewheel.progress.tracker import Tracker

Key = TypeVar("Key", bound=Hashable)


class ChangeBatch(Generic[Key]):
    """Sums of signed changes by key; sums of 0 are dropped.

    >>> batch = ChangeBatch([("a", 1), ("b", 2)])
    >>> batch.update("a", -1)
    >>> list(batch)
    [('b', 2)]
    """

    __slots__ = ("_changes",)

    def __init__(self, changes: Iterable[tuple[Key, int]] = ()) -> None:
        self._changes: dict[Key, int] = {}
        self.extend(changes)

    def update(self, key: Key, difference: int) -> None:
        """Add ``difference`` to the change of ``key``; O(1)."""
        total = self._changes.get(key, 0) + difference
        if total:
            self._changes[key] = total
        else:
            self._changes.pop(key, None)

    def extend(self, changes: Iterable[tuple[Key, int]]) -> None:
        """Add many changes."""
        own = self._changes
        for key, difference in changes:
            total = own.get(key, 0) + difference
            if total:
                own[key] = total
            else:
                own.pop(key, None)

    def get(self, key: Key) -> int:
        """Return the net change of ``key``, 0 if there is none."""
        return self._changes.get(key, 0)

    def drain(self) -> list[tuple[Key, int]]:
        """Return the net changes and clear them."""
        changes = list(self._changes.items())
        self._changes.clear()
        return changes

    def __iter__(self) -> Iterator[tuple[Key, int]]:
        return iter(self._changes.items())

    def __len__(self) -> int:
        return len(self._changes)

    def __repr__(self) -> str:
        return f"ChangeBatch({list(self)!r})"


Change: TypeAlias = tuple[tuple[int, Time], int]
"""((location number, time), change of the count)."""

ProgressBatch: TypeAlias = list[Change]
"""The net changes of one step, or of several whole steps."""


class HeldBatch:
    """Unsent changes of whole steps.

    Args:
        tracker: the view whose frontiers decide what is covered.
        hold_back: if False, a worker sends the changes of every step at its end.
    """

    def __init__(self, tracker: Tracker, *, hold_back: bool) -> None:
        self._tracker = tracker
        self._hold_back = hold_back
        self._changes: ChangeBatch[tuple[int, Time]] = ChangeBatch()
        self._earliest: dict[int, list[Time]] = {}
        self._covers: set[int] = set()
        self._urgent = False

    def add(self, step: ProgressBatch) -> None:
        """Add the changes of a whole step."""
        self._changes.extend(step)
        if not self._changes:
            self.drain()  # cancelled changes then make no later change urgent
        elif not self._urgent:
            self._urgent = not self._hold_back or self._any_matters(step)

    def _any_matters(self, step: ProgressBatch) -> bool:
        # A net removal without a removal in this step comes from an earlier step, which has checked it.
        for (location, time), difference in step:  # noqa: SIM110 - once for each change of every step
            if difference < 0 and self._matters(location, time):
                return True
        return False

    def frontiers_moved(self, moved: set[int]) -> None:
        """Check the held changes again if some were covered by a frontier of these locations."""
        if not self._urgent and not self._covers.isdisjoint(moved):
            self._covers.clear()
            self._urgent = any(self._matters_now(location) for location in list(self._earliest))

    def _matters(self, location: int, time: Time) -> bool:
        """Tell whether the removal of this pointstamp might move a frontier.

        It checks only the earliest removed times of a location, each once: what covers one of them covers all later
        times.
        """
        if not self._takes_away((location, time), self._changes.get((location, time))):
            return False
        earliest = self._earliest.get(location)
        if earliest:
            less_equal = self._tracker.comparisons[location]
            if any(less_equal(one, time) for one in earliest):
                return False
            earliest = [one for one in earliest if not less_equal(time, one)]
        self._earliest[location] = [time] if earliest is None else [*earliest, time]
        return not self._is_covered(location, time)

    def _matters_now(self, location: int) -> bool:
        earliest = self._earliest[location]
        if all(self._is_covered(location, time) for time in earliest):
            return False
        if all(self._takes_away((location, time), self._changes.get((location, time))) for time in earliest):
            return True
        del self._earliest[location]  # some of these changes were put back since
        return any(self._matters(location, time) for (at, time), _ in self._changes if at == location)

    def _is_covered(self, location: int, time: Time) -> bool:
        cover = self._tracker.covered_by(location, time)
        if cover is None:
            return False
        self._covers.add(cover)
        return True

    def _takes_away(self, pointstamp: tuple[int, Time], difference: int) -> bool:
        return difference < 0

    @property
    def is_due(self) -> bool:
        """True if the worker must send the held changes now."""
        return self._urgent and len(self._changes) > 0

    def drain(self) -> ProgressBatch:
        """Return all held changes and clear them."""
        self._urgent = False
        self._earliest.clear()
        self._covers.clear()
        return self._changes.drain()

    def __iter__(self) -> Iterator[Change]:
        return iter(self._changes)


class NetBatch(HeldBatch):
    """The changes that an accumulator has received from all workers and not yet sent to them.

    The accumulator knows what every view counts. So it sends when all workers together have removed a pointstamp that
    the views count, but not while some workers still have their token for a time.
    """

    def _takes_away(self, pointstamp: tuple[int, Time], difference: int) -> bool:
        return 0 < self._tracker.count(*pointstamp) <= -difference
