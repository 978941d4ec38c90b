"""Net changes of counts, and the batch of them that a worker holds back.

Progress that cannot move anyone's frontier waits, and is merged with what comes after it. A worker's changes must be
sent, whole, once they take a pointstamp away that may be the last one to hold some frontier back. They need not be sent
while

- they only add pointstamps: those come from tokens whose counts everybody has, so frontiers allow for them already; or
- each pointstamp that they take away is covered: the frontier at some location before it says that an earlier one is
  still there and leads to it. Whatever the one holds back, the other holds back too.

Nothing is held for ever. Suppose that nothing moves any more while workers hold batches back, and take an earliest
pointstamp that is gone in truth but not in the views. Its removal is held back, so an earlier pointstamp covers it,
which is not gone; and that one rightly holds back every frontier that the first one does. So no frontier is late. When
a frontier that covers something moves, what it covered is looked at again.

Source: the idea is that of demand-driven progress batches in timely dataflow; the rule and its proof are ours.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeAlias, TypeVar

from tidewheel.progress.time_domain import Time
from tidewheel.progress.tracker import Tracker

Key = TypeVar("Key", bound=Hashable)


class ChangeBatch(Generic[Key]):
    """A sum of signed changes by key, where what cancels out is gone.

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
        """Add ``difference`` to the change of ``key``. Complexity: O(1)."""
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
        """Return the net changes and start anew."""
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
"""((location number, time), difference of the count)."""

ProgressBatch: TypeAlias = list[Change]
"""Net changes of one step, or of several whole ones."""


class HeldBatch:
    """Changes of whole steps that have not been sent.

    Args:
        tracker: the view whose frontiers say what is covered.
        hold_back: False sends every step's changes at its end.
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
            self.drain()  # so that what has cancelled out makes nothing urgent that comes later
        elif not self._urgent:
            self._urgent = not self._hold_back or self._any_matters(step)

    def _any_matters(self, step: ProgressBatch) -> bool:
        # What a step adds may leave something taken away that an earlier step took, which was looked at then.
        for (location, time), difference in step:  # noqa: SIM110 - once for each change of every step
            if difference < 0 and self._matters(location, time):
                return True
        return False

    def frontiers_moved(self, moved: set[int]) -> None:
        """Look again at what is held, if the frontier of one of these locations covers some of it."""
        if not self._urgent and not self._covers.isdisjoint(moved):
            self._covers.clear()
            self._urgent = any(self._matters_now(location) for location in list(self._earliest))

    def _matters(self, location: int, time: Time) -> bool:
        """Tell whether what is held of this pointstamp might move a frontier, apart from what was asked of before.

        Only the earliest times that are taken away at a location are asked of: what covers one covers all later ones.
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
        """Tell whether anything that is held of this location might move a frontier, frontiers having moved."""
        earliest = self._earliest[location]
        if all(self._is_covered(location, time) for time in earliest):
            return False
        if all(self._takes_away((location, time), self._changes.get((location, time))) for time in earliest):
            return True
        del self._earliest[location]  # some of them were put back since
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
        """Whether what is held has to be sent now."""
        return self._urgent and len(self._changes) > 0

    def drain(self) -> ProgressBatch:
        """Return all that is held and start anew."""
        self._urgent = False
        self._earliest.clear()
        self._covers.clear()
        return self._changes.drain()

    def __iter__(self) -> Iterator[Change]:
        return iter(self._changes)


class NetBatch(HeldBatch):
    """What an accumulator has heard from all workers and not told them yet.

    It knows what every view is, so it need only speak when a pointstamp goes that the views still count: the first of
    several workers to drop a token for a time changes nothing.
    """

    def _takes_away(self, pointstamp: tuple[int, Time], difference: int) -> bool:
        return 0 < self._tracker.count(*pointstamp) <= -difference
