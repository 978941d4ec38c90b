"""The knowledge of each tick of a pubend, which grows and can be forgotten.

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

The values form a lattice: Q is below D and F; D and F are below D*; F is also below S; and all are below E. New
knowledge of a tick is the least upper bound of the old and the received value. The stream then lowers D* and S to F, so
it holds only Q, D and F. So a message and the news that its tick is final give F, in any order and however often they
arrive.

Source: seed "Gryphon exactly-once", section 2.1, with the lattice of its figure 2.
"""

from reprlib import repr as shortened
from typing import Generic, TypeVar

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.tick_messages import TickMessages
from tidewheel.pubsub.messages.tick_set import FOREVER, TickRange, TickSet, gaps

M = TypeVar("M")


class ContradictionError(ProtocolError):
    """Two different messages on one tick: its knowledge would be E."""

    def __init__(self, message: str, *, tick: int = -1, held: object = None, came: object = None) -> None:
        super().__init__(message)
        self.tick = tick
        self.held = held
        self.came = came


class KnowledgeStream(Generic[M]):
    """The knowledge of every tick; each is Q at first.

    Two messages of one tick are compared with ``==``. Methods with a range raise `ProtocolError` for an invalid range.

    Complexity: O(1) for ticks in order, otherwise O(log (ranges + messages)) and a move of the later entries in memory;
    plus the size of results and the number of dropped messages.

    Attributes:
        known: the ticks that are F or D; only the stream may change them and ``data``.
        data: the messages of the ticks that are D.

    >>> stream = KnowledgeStream[str]()
    >>> stream.accumulate_final(0, 5)
    >>> stream.accumulate_data(5, "a")
    >>> stream.accumulate_data(9, "b")
    >>> stream.known.next_missing(0), stream.data.between(0, 6), stream.known.missing(0, 10)
    (6, [(5, 'a')], ((6, 9),))
    >>> stream.accumulate_final(0, 7)
    >>> stream.finals(), stream.data.between(0, 10)
    (((0, 7),), [(9, 'b')])
    """

    __slots__ = ("data", "known")

    def __init__(self) -> None:
        self.known = TickSet()
        self.data = TickMessages[M]()

    # Accumulation

    def accumulate_data(self, tick: int, message: M, size_bytes: int = 0) -> None:
        """Learn that ``message``, of ``size_bytes`` bytes, was published on ``tick``.

        Raises:
            ContradictionError: the tick has another message.
        """
        if tick not in self.known:
            self.known.add(tick, tick + 1)
            self.data.add(tick, message, size_bytes)
        elif tick in self.data:
            self._compare(tick, message)

    def accumulate_final(self, first: int, end: int) -> None:
        """Learn that all ticks of a range are final, and drop their messages."""
        self.known.add(first, end)
        self.data.remove(first, end)

    def take(self, first: int, end: int) -> list[tuple[int, M]]:
        data = self.data.between(first, end)
        self.accumulate_final(first, end)
        return data

    def _compare(self, tick: int, message: M) -> None:
        held = self.data[tick]
        if held is not message and held != message:
            raise ContradictionError(
                f"tick {tick} has two different messages, first {shortened(held)}, now {shortened(message)}: a pubend "
                "puts one message on a tick, and no two pubends share a tick",
                tick=tick,
                held=held,
                came=message,
            )

    # Forgetting

    def forget(self, first: int, end: int = FOREVER) -> None:
        self.known.remove(first, end)
        self.data.remove(first, end)

    def forget_oldest_data(self, max_bytes: int) -> None:
        """Forget the oldest messages until the remaining ones have at most ``max_bytes`` bytes.

        The knowledge between the forgotten messages is forgotten, too, except for the final ticks from 0 on.
        """
        last = self.data.oldest_over(max_bytes)
        if last is not None:
            self.forget(self.final_end, last + 1)

    def forget_latest_data(self, max_bytes: int, after: int = 0) -> bool:
        """Forget the latest messages until the others have at most ``max_bytes`` bytes; return whether it forgot any.

        Knowledge behind the first gap after the remaining messages is forgotten, too. Knowledge before ``after`` stays.
        """
        first = self.data.latest_over(max_bytes, after)
        if first is None:
            return False
        self.forget(max(after, min(first, self.known.next_missing(self.data.last_before(first) or 0))))
        return True

    # Questions

    def finals(self, first: int = 0, end: int = FOREVER) -> tuple[TickRange, ...]:
        """Return the ranges of F ticks from ``first`` up to ``end``, in order."""
        known = self.known.ranges(first, end)
        return tuple(gap for begin, stop in known for gap in gaps(begin, stop, self.data.ticks(begin, stop)))

    @property
    def final_end(self) -> int:
        """The first tick from 0 on that is not F; `FOREVER` if all are."""
        oldest = self.data.oldest
        return self.known.prefix_end if oldest is None else min(oldest, self.known.prefix_end)
