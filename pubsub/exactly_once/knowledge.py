"""The knowledge of each tick of a pubend, and how it grows and is forgotten.

=====  ==========================================================================================
value  meaning
=====  ==========================================================================================
Q      nothing is known
D      a message was published on the tick; it is part of the value
DSTAR  a message was published, and every reader downstream that needed it has it
S      silence: there was no message, or a filter on the way has rejected it
F      final: no reader needs a message, because of D* or S
E      an error: two different messages on one tick, or a message on a silent one; never reached
=====  ==========================================================================================

The values form a lattice: Q below D and F, both of these below D*, F below S as well, and all below E. New knowledge of
a tick is the least upper bound of the old value and the received one. The stream then lowers D* and S to F, so it holds
only Q, D and F. Hence a message and the news that it is final lead to F, in any order and any number of times.

Source: seed "Gryphon exactly-once", section 2.1, with the lattice of its figure 2.
"""

from enum import Enum
from reprlib import repr as shortened
from typing import Generic, NamedTuple, TypeVar

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.tick_messages import TickMessages
from tidewheel.pubsub.exactly_once.tick_set import FOREVER, TickRange, TickSet

M = TypeVar("M")


class Knowledge(Enum):
    """The knowledge of one tick."""

    Q = "Q"
    F = "F"
    D = "D"
    S = "S"
    DSTAR = "D*"
    E = "E"


_TABLE = """
    Q  F  D  S  D* E
Q   Q  F  D  S  D* E
F   F  F  D* S  D* E
D   D  D* D  E  D* E
S   S  S  E  S  E  E
D*  D* D* D* E  D* E
E   E  E  E  E  E  E
"""


def _lattice(table: str) -> dict[tuple[Knowledge, Knowledge], Knowledge]:
    columns, *rows = [[Knowledge(name) for name in line.split()] for line in table.strip().splitlines()]
    return {(row, column): bound for row, *bounds in rows for column, bound in zip(columns, bounds, strict=True)}


LUB = _lattice(_TABLE)
"""The least upper bound of each two values. D with D is D for the same message, and E otherwise."""


def lowered(value: Knowledge) -> Knowledge:
    """Return the value that a stream keeps: F in place of D* and S."""
    return Knowledge.F if value in (Knowledge.S, Knowledge.DSTAR) else value


class ContradictionError(ProtocolError):
    """Two contradicting values of one tick: its knowledge would be E.

    Args:
        message: the text of the error.
        tick: the tick.
        held: the message that was known before.
        came: the received value: another message, or `Knowledge.S`.
    """

    def __init__(self, message: str, *, tick: int = -1, held: object = None, came: object = None) -> None:
        super().__init__(message)
        self.tick = tick
        self.held = held
        self.came = came


class NewFinals(NamedTuple):
    """The ticks that have just become final; false if there are none.

    Args:
        ranges: the ticks that have become F, from Q or from D, as ranges in order.
        dropped: those of them that were D, in order; the stream no longer has their messages.
    """

    ranges: tuple[TickRange, ...]
    dropped: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.ranges)


_NOTHING = NewFinals((), ())


class KnowledgeStream(Generic[M]):
    """The knowledge of every tick; Q to begin with.

    A range of F costs only its bounds, and nothing if it touches another range or a message. The stream compares two
    messages of one tick with ``==``. Methods with a range raise `ProtocolError` for an invalid one.

    Complexity: O(1) for ticks in order, otherwise O(log (ranges + messages)) with a move of memory; plus the size of
    the result and of the dropped messages.

    >>> stream = KnowledgeStream[str]()
    >>> stream.accumulate_final(0, 5), stream.accumulate_data(5, "a"), stream.accumulate_data(9, "b")
    (NewFinals(ranges=((0, 5),), dropped=()), True, True)
    >>> stream.doubt_horizon(), stream.data_between(0, 6), stream.unknown(0, 10)
    (6, [(5, 'a')], ((6, 9),))
    >>> stream.accumulate_final(0, 7), stream.value(5)
    (NewFinals(ranges=((5, 7),), dropped=(5,)), <Knowledge.F: 'F'>)
    """

    __slots__ = ("_data", "_known")

    def __init__(self) -> None:
        self._known = TickSet()  # F or D
        self._data = TickMessages[M]()  # D

    # Accumulation

    def accumulate_data(self, tick: int, message: M, size_bytes: int = 0) -> bool:
        """Learn that ``message``, of ``size_bytes`` bytes, was published on ``tick``; tell whether that is new.

        On a tick that is F it is not new: D* and D together are D*, and the stream does not distinguish D* from S.

        Raises:
            ContradictionError: the tick has another message.
            ProtocolError: ``tick`` is no tick.
        """
        if tick in self._known:
            if tick in self._data:
                self._compare(tick, message)
            return False
        self._known.add(tick, tick + 1)
        self._data.add(tick, message, size_bytes)
        return True

    def accumulate_final(self, first: int, end: int) -> NewFinals:
        """Learn that all ticks of a range are final, and drop their messages; return the new final ticks."""
        if self._known.end <= first < end:  # the usual case
            self._known.add(first, end)
            return NewFinals(((first, end),), ())
        new = self._known.missing(first, end)
        if new:
            self._known.add(first, end)
        dropped = self._data.remove(first, end)
        if not dropped:
            return NewFinals(new, ()) if new else _NOTHING
        if not new and len(dropped) == 1:  # one message is acknowledged
            return NewFinals(((dropped[0], dropped[0] + 1),), dropped)
        ranges = TickSet(new)
        ranges.update((tick, tick + 1) for tick in dropped)
        return NewFinals(ranges.ranges(), dropped)

    def take(self, first: int, end: int) -> list[tuple[int, M]]:
        """Make all ticks of a range final; return the messages of the ticks that were D, in order."""
        data = self._data.between(first, end)
        self._known.add(first, end)
        self._data.remove(first, end)
        return data

    def accumulate_silence(self, first: int, end: int) -> NewFinals:
        """Learn that no tick of a range ever had a message; otherwise as `accumulate_final`.

        Raises:
            ContradictionError: a tick has a message.
        """
        for tick, message in self._data.between(first, end):
            raise ContradictionError(
                f"tick {tick} has the message {shortened(message)}, but the pubend now declares the range "
                f"({first}, {end}) silent. A pubend must declare only ticks silent that never get a message",
                tick=tick,
                held=message,
                came=Knowledge.S,
            )
        return self.accumulate_final(first, end)

    def _compare(self, tick: int, message: M) -> None:
        held = self._data[tick]
        if held is not message and held != message:
            raise ContradictionError(
                f"tick {tick} has two different messages, first {shortened(held)}, now {shortened(message)}: a pubend "
                "puts one message on a tick, and no two pubends share a tick",
                tick=tick,
                held=held,
                came=message,
            )

    # Forgetting

    def forget(self, first: int, end: int = FOREVER) -> tuple[int, ...]:
        """Make all ticks of a range Q; return the ticks that had a message, in order."""
        self._known.remove(first, end)
        return self._data.remove(first, end)

    def forget_oldest_data(self, max_bytes: int) -> TickRange | None:
        """Forget the oldest messages, so that the others have at most ``max_bytes`` bytes.

        It also forgets all knowledge between them, except the final ticks from 0 on. Otherwise every forgotten message
        would leave a range behind.

        Returns:
            The range that is Q now; None if all messages fit.
        """
        last = self._data.oldest_over(max_bytes)
        if last is None:
            return None
        forgotten = (self.final_end, last + 1)
        self.forget(*forgotten)
        return forgotten

    def forget_latest_data(self, max_bytes: int, after: int = 0) -> TickRange | None:
        """Forget the latest messages, so that the others have at most ``max_bytes`` bytes.

        It also forgets all knowledge after the first gap behind the others, as in `forget_oldest_data`. Knowledge
        before ``after`` stays in any case.

        Returns:
            The range that is Q now, with an open end; None if all messages fit.
        """
        first = self._data.latest_over(max_bytes, after)
        if first is None:
            return None
        kept = self._data.last_before(first)
        forgotten = (max(after, min(first, self.doubt_horizon(0 if kept is None else kept))), FOREVER)
        self.forget(*forgotten)
        return forgotten

    # Questions

    def value(self, tick: int) -> Knowledge:
        """Return the knowledge of one tick: Q, D or F."""
        if tick in self._data:
            return Knowledge.D
        return Knowledge.F if tick in self._known else Knowledge.Q

    def doubt_horizon(self, start: int = 0) -> int:
        """Return the first tick at or after ``start`` that is Q; `FOREVER` if there is none."""
        return self._known.next_missing(start)

    def data_between(self, first: int, end: int) -> list[tuple[int, M]]:
        """Return the ticks of a range that are D, in order, with their messages."""
        return self._data.between(first, end)

    def read_data(self, first: int, end: int, max_bytes: int) -> tuple[list[tuple[int, M]], int]:
        """Return the ticks of a range that are D, in order, with their messages, and the end of the covered range.

        That end is ``end``. If the messages exceed ``max_bytes``, it is one after the last returned tick; at least one
        message is returned.
        """
        return self._data.read(first, end, max_bytes)

    @property
    def oldest_data(self) -> tuple[int, M] | None:
        """The first tick that is D, with its message; None if none is. Complexity: O(1)."""
        oldest = self._data.oldest
        return None if oldest is None else (oldest, self._data[oldest])

    @property
    def latest_data(self) -> int | None:
        """The last tick that is D; None if none is. Complexity: O(1)."""
        return self._data.latest

    def finals(self, first: int = 0, end: int = FOREVER) -> tuple[TickRange, ...]:
        """Return, in order, the ranges of the ticks from ``first`` up to ``end`` that are F."""
        found = []
        for known_first, known_end in self._known.ranges(first, end):
            start = known_first
            for tick in self._data.ticks(known_first, known_end):
                if start < tick:
                    found.append((start, tick))
                start = tick + 1
            if start < known_end:
                found.append((start, known_end))
        return tuple(found)

    def unknown(self, first: int = 0, end: int = FOREVER) -> tuple[TickRange, ...]:
        """Return, in order, the ranges of the ticks from ``first`` up to ``end`` that are Q."""
        return self._known.missing(first, end)

    @property
    def known(self) -> TickSet:
        """The ticks that are D or F; the caller must not change them."""
        return self._known

    @property
    def known_end(self) -> int:
        """One after the last tick that is not Q; 0 if all are."""
        return self._known.end

    @property
    def final_end(self) -> int:
        """The first tick from 0 on that is not F; `FOREVER` if all are."""
        oldest = self._data.oldest
        return self._known.prefix_end if oldest is None else min(oldest, self._known.prefix_end)

    @property
    def data_bytes(self) -> int:
        """The size of the messages, as stated on their arrival."""
        return self._data.bytes

    @property
    def data_count(self) -> int:
        """The number of ticks that are D."""
        return len(self._data)
