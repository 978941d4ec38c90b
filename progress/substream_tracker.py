"""One view of which substreams have ended where.

A substream is what belongs to one key. Its points are ordered by time, and not at all with those of other keys; so the
pointstamps of a key at a time are counted like those of a time alone, and what makes views of times safe makes these
safe, too. Time has to be part of a point: on a cycle that came back to the same point, a message that was consumed
before a view heard of its making would cancel one that is under way.

Nobody says that a substream begins. Where it is declared, every key that may ever come counts as open from the
beginning, once for each of those who may send at it; so no view can miss one that it has not heard of. Who will not
send at a key any more takes one of these counts away.

Invariants:

- A substream has ended at a location when nobody may send at its key any more, and no count of its points is positive
  where that location can be reached from. Each end is told once.
- Where order is asked for, ends wait for those of the substreams that were closed before. If all who send closed one
  before another, that is their order.
- What has ended everywhere, was told, and is counted nowhere, is forgotten. Then nothing of it is left that this view
  has not heard of: what was done last was done with something that a view counts until it hears of that.

Source: seed "Substream Management", sections on soft bounds and their traffic; seed "Progress Tracking", section "A
Safety Property".
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import NamedTuple, TypeAlias

from tidewheel.progress.compiled_graph import CompiledGraph
from tidewheel.progress.errors import GraphError
from tidewheel.progress.location import Location
from tidewheel.progress.time_domain import Time

Key: TypeAlias = object
"""What tells substreams apart; hashable, and equal to itself, which NaN is not."""


class SubstreamPoint(NamedTuple):
    """A time of a substream at a location, which is given by its number in `CompiledGraph.locations`."""

    key: Key
    location: int
    time: Time


SubstreamChange: TypeAlias = tuple[SubstreamPoint, int]
"""(point, difference of its count)."""


class SubstreamEnd(NamedTuple):
    """A substream has ended at a location, given by its number."""

    key: Key
    location: int


@dataclass(frozen=True, slots=True)
class Declaration:
    """Where records get their keys.

    Attributes:
        location: the number of the location from which keyed records go on.
        senders: how many may send at each key.
    """

    location: int
    senders: int


class _Life:
    """The counts of a substream that are not zero."""

    __slots__ = ("awaited", "counts", "is_closed", "positive")

    def __init__(self, awaited: tuple[int, ...]) -> None:
        self.counts: dict[tuple[int, Time], int] = {}
        self.positive: dict[int, int] = {}
        """How many times have a positive count, by location."""
        self.awaited = awaited
        """The locations of interest where it has not ended."""
        self.is_closed = False

    def add(self, point: tuple[int, Time], difference: int) -> bool:
        """Change a count; return whether a location has no positive one any more."""
        location = point[0]
        before = self.counts.get(point, 0)
        now = before + difference
        if now:
            self.counts[point] = now
        else:
            self.counts.pop(point, None)
        if before <= 0 < now:
            self.positive[location] = self.positive.get(location, 0) + 1
        elif now <= 0 < before:
            left = self.positive.pop(location) - 1
            if not left:
                return True
            self.positive[location] = left
        return False


class SubstreamTracker:
    """Accumulates changes of points, and tells which substreams they end where.

    Args:
        compiled: the graph.
        declaration: where the substreams begin.
        interesting: the locations of which somebody asks when substreams end there.
        ordered: those of them where substreams are to end in the order in which they were closed.

    Raises:
        GraphError: nothing gets from the declaration to a location of interest.
    """

    def __init__(
        self,
        compiled: CompiledGraph,
        declaration: Declaration,
        interesting: Collection[Location],
        ordered: Container[Location] = (),
    ) -> None:
        start = compiled.locations[declaration.location]
        self._declaration = declaration
        self._first = compiled.domains[declaration.location].minimum()
        self._before: Mapping[int, frozenset[int]] = {
            compiled.index[location]: frozenset(compiled.index[earlier] for earlier in compiled.reaching(location))
            for location in interesting
        }
        for location in interesting:
            if start not in compiled.reaching(location):
                raise GraphError(
                    f"nothing gets from {compiled.graph.describe(start)}, where substreams are declared, to "
                    f"{compiled.graph.describe(location)}, where somebody asks for their ends"
                )
        self._interesting = tuple(self._before)
        self._queues: dict[int, dict[Key, bool]] = {
            number: {} for number in self._before if compiled.locations[number] in ordered
        }
        """By location, the closed substreams that are not told of yet, in order, and whether they have ended there."""
        self._lives: dict[Key, _Life] = {}
        self._closed: list[Key] = []
        self._over: list[Key] = []
        self._is_finished = False

    @property
    def closing(self) -> tuple[int, Time]:
        """The location and the time at which those who will not send at a key any more take a count of it away.

        Nothing else of a substream is ever there: what comes back to where keys are given has a later time.
        """
        return self._declaration.location, self._first

    def __len__(self) -> int:
        """Return how many substreams it remembers anything of."""
        return len(set(self._lives).union(*self._queues.values()))

    def update(self, changes: Iterable[SubstreamChange]) -> list[SubstreamEnd]:
        """Apply the changes of one indivisible batch; return what they end.

        Complexity: for each change O(1); for each substream that is nowhere any more where it was before, the locations
        of interest where it has not ended, times those where it is.
        """
        return self.update_keys((key, (((location, time), by),)) for (key, location, time), by in changes)

    def update_keys(self, changes: Iterable[tuple[Key, Iterable[tuple[tuple[int, Time], int]]]]) -> list[SubstreamEnd]:
        """Apply changes as `update` does, given as (key, ((location, time), difference) each)."""
        lives, left, gone, closing = self._lives, dict[Key, _Life](), list[Key](), self.closing
        for key, differences in changes:
            life = lives.get(key)
            if life is None:
                life = lives[key] = _Life(self._interesting)
                life.add(closing, self._declaration.senders)
            for point, difference in differences:
                if life.add(point, difference):
                    left[key] = life
                if point == closing and closing not in life.counts:
                    left[key] = life
                    life.is_closed = True
                    self._closed.append(key)
                    for queue in self._queues.values():
                        queue[key] = False
            if not life.counts:
                gone.append(key)
        ended = [end for key, life in left.items() for end in self._ends(key, life)]
        self._forget(gone, ended)
        return ended

    def _forget(self, gone: list[Key], ended: list[SubstreamEnd]) -> None:
        """Forget what is counted nowhere; what waits to be told, once it was."""
        for key in gone:
            if key in self._lives and not self._lives[key].counts:
                del self._lives[key]
        for key in dict.fromkeys(chain(gone, (end.key for end in ended))):
            if key not in self._lives and not any(key in queue for queue in self._queues.values()):
                self._over.append(key)

    def finish(self) -> list[SubstreamEnd]:
        """Close all keys for all who may send: nobody sends at any key any more. Return what that ends.

        Every key must have occurred in a change before.
        """
        self._is_finished = True
        _, ends = self.close_but(())
        return ends

    def close_but(self, spared: Container[Key]) -> tuple[list[Key], list[SubstreamEnd]]:
        """Close all keys that are known but these for all who may send; return which that closes, and what it ends."""
        closing = self.closing
        still_open = [
            (key, life.counts[closing])
            for key, life in self._lives.items()
            if closing in life.counts and key not in spared
        ]
        ends = self.update([(SubstreamPoint(key, *closing), -count) for key, count in still_open])
        return [key for key, _ in still_open], ends

    def drain_over(self) -> list[Key]:
        """Return the keys that were forgotten since the last call: of each, nothing is left, and every end was told."""
        over, self._over = self._over, []
        return over

    def drain_closed(self) -> list[Key]:
        """Return the keys at which nobody may send any more since the last call, in order."""
        closed, self._closed = self._closed, []
        return closed

    @property
    def is_over(self) -> bool:
        """Whether no substream is left, and none can come any more."""
        return self._is_finished and not self._lives and not any(self._queues.values())

    def _ends(self, key: Key, life: _Life) -> Iterator[SubstreamEnd]:
        """Yield where a substream has ended now, and which ends of others waited for that."""
        if not life.is_closed:
            return
        awaited, life.awaited = life.awaited, ()
        for location in awaited:
            if not self._before[location].isdisjoint(life.positive):
                life.awaited += (location,)
            elif location not in self._queues:
                yield SubstreamEnd(key, location)
            else:
                queue = self._queues[location]
                queue[key] = True
                for first in list(takewhile(queue.__getitem__, queue)):
                    del queue[first]
                    yield SubstreamEnd(first, location)
