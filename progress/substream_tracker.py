"""The view of one worker: which substreams have ended at which locations.

A substream is all records and tokens of one key. Its pointstamps, here called *points*, are counted like other
pointstamps; those of different keys are unordered. So the same proof of safety holds. A point has a time, so that a
message that goes round a cycle gets another point each time. Otherwise a view that learns of a receipt before the
sending would cancel another message, still in flight.

No message announces the beginning of a substream. Instead every possible key counts as open from the start, once for
each *sender*, a worker that declares substreams. So no view can miss a substream. A sender *closes* a key when it will
send no more of the key, and thereby removes its count.

Invariants:

- A substream has ended at a location when all senders have closed its key, and no point with a positive count can reach
  the location. Each end is reported once.
- At an ordered location, ends are reported in the order in which all senders had closed the keys.
- A substream is forgotten when it has ended everywhere, its ends are reported, and no point of it has a count. The view
  has then received every change of the substream: until the last change arrives, some point has a count.

Source: seed "Substream Management", sections on soft bounds and their traffic; seed "Progress Tracking", section "A
Safety Property".
"""

from collections import OrderedDict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeAlias

from tidewheel.progress.compiled_graph import CompiledGraph
from tidewheel.progress.errors import GraphError
from tidewheel.progress.graph import Location
from tidewheel.progress.time_domain import Time

Key: TypeAlias = object
"""The key of a substream; hashable, and equal to itself, which NaN is not."""

Differences: TypeAlias = Iterable[tuple[tuple[int, Time], int]]
"""The changes of one substream, each as ((location number, time), change of the count)."""

Ends: TypeAlias = Mapping[int, list[Key]]
"""By the number of a location, the substreams that have ended there, in order."""


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """The counts of a substream, shared by all substreams with the same history.

    Attributes:
        positive: the locations with a positive count.
        awaited: the locations of interest where the substream has not ended.
    """

    counts: Mapping[tuple[int, Time], int]
    positive: frozenset[int]
    awaited: tuple[int, ...]
    is_closed: bool


class ToldEnds(NamedTuple):
    """The ends that a view has reported, so that another view can continue from there.

    Attributes:
        ended: for each closed substream that is not forgotten, the locations where its end is reported.
        queues: for each ordered location, the closed substreams whose end there is not reported yet, in order.
    """

    ended: Mapping[Key, Sequence[int]]
    queues: Mapping[int, Sequence[Key]]


@dataclass(frozen=True, slots=True)
class _Move:
    """The next state of a substream.

    Attributes:
        is_quiet: whether the substream is neither closed nor forgotten by the move, and ends nowhere.
    """

    state: _State | None
    closes: bool
    ends: tuple[int, ...]
    is_quiet: bool


class SubstreamTracker:
    """Adds up the changes of points, and reports which substreams end at which locations.

    Args:
        ordered: the locations where substreams end in the order in which they were closed.

    Raises:
        GraphError: no path leads from ``start`` to a location of interest.

    Attributes:
        closing: the location and time of the counts that senders remove when they close a key; a substream has no other
            point there.
    """

    def __init__(
        self,
        compiled: CompiledGraph,
        start: Location,
        senders: int,
        interesting: Collection[Location],
        ordered: Container[Location] = (),
    ) -> None:
        number = compiled.index[start]
        self.closing: tuple[int, Time] = (number, compiled.domains[number].minimum())
        self._before: Mapping[int, frozenset[int]] = {
            compiled.index[location]: frozenset(compiled.index[earlier] for earlier in compiled.reaching(location))
            for location in interesting
        }
        for location in interesting:
            if start not in compiled.reaching(location):
                raise GraphError(
                    f"nothing gets from {compiled.graph.describe(start)}, where substreams are declared, to "
                    f"{compiled.graph.describe(location)}, where an operator asks for their ends"
                )
        self._queues: dict[int, OrderedDict[Key, bool]] = {
            compiled.index[location]: OrderedDict() for location in interesting if location in ordered
        }
        """By ordered location: the closed substreams that are not reported there yet, in order.

        True if it has ended there.
        """
        self._begin = _State({self.closing: senders}, frozenset([number]), tuple(self._before), False)
        self._lives: dict[Key, _State] = {}
        self._closed_before: set[Key] = set()
        """The keys that the earlier view closed, until they are forgotten."""
        self._closed: list[Key] = []
        self._over: list[Key] = []
        self._is_finished = False

    def __len__(self) -> int:
        return len(set(self._lives).union(*self._queues.values()))

    def update(self, keys: Iterable[Key], which: Iterable[int], shapes: Sequence[Differences]) -> Ends:
        """Apply one indivisible batch; return the ends.

        Many substreams share the same changes, a shape: ``keys[i]`` has the changes ``shapes[which[i]]``.

        Complexity: O(1) for each key; for each distinct pair of state and shape, its points and the locations of
        interest where it has not ended.
        """
        lives, begin = self._lives, self._begin
        moves: list[dict[_State, _Move]] = [{} for _ in shapes]
        told: list[Key] = []
        ends: dict[int, list[Key]] = {}
        for key, number in zip(keys, which, strict=True):
            state = lives.get(key, begin)
            move = moves[number].get(state)
            if move is None:
                move = moves[number][state] = self._move(state, shapes[number])
            if move.is_quiet:
                lives[key] = move.state  # type: ignore[assignment]  # it has one
                continue
            if move.state is not None:
                lives[key] = move.state
            else:
                lives.pop(key, None)
            told.append(key)
            if move.closes and key not in self._closed_before:
                self._closed.append(key)
                for queue in self._queues.values():
                    queue[key] = False
            for location in move.ends:
                ends.setdefault(location, []).extend(self._in_turn(key, location))
        if told:
            self._forget(dict.fromkeys(chain(told, *(ends[location] for location in ends if location in self._queues))))
        return ends

    def _move(self, state: _State, differences: Differences) -> _Move:
        closing, counts = self.closing, dict(state.counts)
        for point, difference in differences:
            now = counts.get(point, 0) + difference
            if now:
                counts[point] = now
            else:
                counts.pop(point, None)
        closes = closing in state.counts and closing not in counts
        positive = frozenset(location for (location, _), count in counts.items() if count > 0)
        is_closed = state.is_closed or closes
        ends: tuple[int, ...] = ()
        if is_closed:
            ends = tuple(location for location in state.awaited if self._before[location].isdisjoint(positive))
        if not counts:
            return _Move(None, closes, ends, False)
        awaited = tuple(location for location in state.awaited if location not in ends)
        return _Move(_State(counts, positive, awaited, is_closed), closes, ends, not closes and not ends)

    def _in_turn(self, key: Key, location: int) -> list[Key]:
        """Note that ``key`` has ended at a location; return the keys whose ends the location can now report."""
        queue = self._queues.get(location)
        if queue is None:
            return [key]
        queue[key] = True
        found: list[Key] = []
        while queue and queue[first := next(iter(queue))]:
            del queue[first]
            found.append(first)
        return found

    def _forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if key not in self._lives and not any(key in queue for queue in self._queues.values()):
                self._over.append(key)
                self._closed_before.discard(key)

    def finish(self) -> Ends:
        """Close all keys for all senders, and return the ends.

        Every key must have occurred in an earlier change.
        """
        self._is_finished = True
        _, ends = self.close_but(())
        return ends

    def close_but(self, spared: Container[Key]) -> tuple[list[Key], Ends]:
        """Close all known keys except ``spared`` for all senders; return the closed keys and the ends."""
        closing = self.closing
        still_open = {
            key: state.counts[closing]
            for key, state in self._lives.items()
            if closing in state.counts and key not in spared
        }
        counts = list(set(still_open.values()))
        which = [counts.index(count) for count in still_open.values()]
        ends = self.update(still_open, which, [[(closing, -count)] for count in counts])
        return list(still_open), ends

    def told(self) -> ToldEnds:
        """Return the ends reported so far; linear in the substreams that are not forgotten."""
        queues = {location: list(queue) for location, queue in self._queues.items()}
        closed = {key: state.awaited for key, state in self._lives.items() if state.is_closed}
        closed.update((key, self._lives[key].awaited) for key in self._closed_before if key in self._lives)
        for key in chain(*queues.values()):
            closed.setdefault(key, ())
        ended = {
            key: [at for at in self._before if at not in awaited and key not in self._queues.get(at, ())]
            for key, awaited in closed.items()
        }
        return ToldEnds(ended, queues)

    def go_on(self, told: ToldEnds) -> None:
        """Continue from the ends that another view has reported; call this before the first update.

        Ends keep their order and are not reported again. Afterwards, all senders report all their counts again.
        """
        begin = self._begin
        states: dict[tuple[int, ...], _State] = {}
        for key, locations in told.ended.items():
            awaited = tuple(at for at in self._before if at not in locations)
            self._lives[key] = states.setdefault(awaited, _State(begin.counts, begin.positive, awaited, False))
        self._closed_before = set(told.ended)
        for location, queue in self._queues.items():
            queue.update(dict.fromkeys(told.queues.get(location, ()), False))

    def drain_over(self) -> list[Key]:
        """Return the substreams forgotten since the last call: their keys may be used again."""
        over, self._over = self._over, []
        return over

    def drain_closed(self) -> list[Key]:
        """Return the keys closed by all senders since the last call, in order."""
        closed, self._closed = self._closed, []
        return closed

    @property
    def is_over(self) -> bool:
        """True if no substream is left, and none can come."""
        return self._is_finished and not self._lives and not any(self._queues.values())
