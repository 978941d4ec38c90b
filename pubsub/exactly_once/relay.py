"""A relay between pubends and subends: it passes each message to many children, and joins their questions.

No I/O. A relay keeps only state that it can request again. Invariants:

- A relay announces only what it was told. A forgotten tick is Q again, and the relay may ask upstream for it.
- News of forgotten messages is valid only until the pubend restarts; then the pubend may have the messages again.
- The relay never makes a tick final itself, since a later child may need it.
- Knowledge of ticks that the relay has not asked for is new, and goes to all children. Other knowledge is an answer,
  and goes to the children that have asked.
- It asks for the union of its children's filters, and its knowledge is valid for that union only (`filters.py`).
- The next message settles a question without an end, since all children are told later ticks anyway.
- While a nack is upstream, no other nack asks for the same ticks, until it is answered or too old.
- A flush has one consolidated acknowledgement, and at most `MOST_ACKS` of other readers; later flushes have the others.

Source: seed "Gryphon exactly-once", sections 2.1.1, 2.4 and 3.
"""

from collections.abc import Callable
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from tidewheel.pubsub.exactly_once.asked import Asked
from tidewheel.pubsub.exactly_once.consolidation import Consolidation, of_one
from tidewheel.pubsub.exactly_once.fanout import Fanout, Outgoing
from tidewheel.pubsub.exactly_once.knowledge import KnowledgeStream
from tidewheel.pubsub.exactly_once.subscription import merged, prefix_end
from tidewheel.pubsub.messages.delivery_messages import (
    MOST_ANSWERED,
    MOST_ANSWERED_BYTES,
    RELAY_PREFIX,
    Ack,
    ConsolidatedAck,
    Downstream,
    KnowledgeMessage,
    Nack,
    Ranges,
    Stranger,
    Upstream,
    repeated,
)
from tidewheel.pubsub.messages.filters import Filter, Wanted
from tidewheel.pubsub.messages.tick_set import FOREVER, TickRange, TickSet

_FIRST = itemgetter(0)

MOST_RANGES = 1000
"""The largest number of known ranges whose gaps no child asks about."""

MOST_ACKS: Final = 100
"""The largest number of separate readers' acknowledgements, for each pubend, in one flush."""

CACHE_BYTES: Final = 32 * 1024 * 1024
"""The default size of a relay's cache. A relay has no log, so it asks upstream for forgotten messages."""


class Relay:
    """One relay of a topic.

    Args:
        cache_bytes: how many bytes of messages it keeps for each pubend.

    Attributes:
        wanted: the union of the children's filters; while it is due, it must be sent to the parents.
    """

    def __init__(self, pubends: int, size_of: Callable[[Any], int], *, cache_bytes: int = CACHE_BYTES) -> None:
        self.wanted = Wanted()
        self._lines = [_Line(pubend, size_of, cache_bytes, self.wanted) for pubend in range(pubends)]

    def join(self, child: str, where: Filter | None = None, *, awaits_silence: bool = True) -> None:
        """Add a child, a subend or another relay, as `Fanout.join` does."""
        for line in self._lines:
            line.fanout.join(child, where, awaits_silence=awaits_silence)
        if self.wanted.join(child, where):
            self._want_others()

    def leave(self, child: str) -> None:
        self.wanted.leave(child)
        for line in self._lines:
            line.leave(child)

    def receive(self, message: Downstream, now_s: float) -> list[Outgoing]:
        line = self._lines[message.pubend]
        if isinstance(message, KnowledgeMessage):
            return line.learn(message, now_s)
        fanout = line.fanout
        if isinstance(message, Stranger) and not message.reader:
            line.readers.name_all()
            return []
        children = fanout.reaching(message.reader) if isinstance(message, Stranger) else fanout.children
        return [Outgoing(child, message) for child in children]

    def nack(self, child: str, nack: Nack, now_s: float) -> tuple[list[Outgoing], list[Upstream]]:
        return self._lines[nack.pubend].nack(child, nack, now_s)

    def ack(self, child: str, ack: Ack | ConsolidatedAck) -> list[Outgoing]:
        """Receive acknowledgements of a child, to send with the next `flush`; return an answer to the child, if any."""
        return self._lines[ack.pubend].ack(child, ack)

    def show_life(self) -> None:
        """Let the next flushes repeat that all readers are alive, since their last messages may have been lost.

        This also removes the filters of disconnected children from the union.
        """
        for line in self._lines:
            line.show_life()
        if self.wanted.shrink():
            self._want_others()

    def _want_others(self) -> None:
        for line in self._lines:
            line.stream.forget(0)
            line.asked.questions.clear()

    def flush(self) -> tuple[list[Outgoing], list[Upstream]]:
        told = [outgoing for line in self._lines for outgoing in line.fanout.flush()]
        return told, [ack for line in self._lines for ack in line.take_acks()]

    def reconnected(self, now_s: float, pubend: int | None = None) -> list[Upstream]:
        """Return the questions to repeat after a new connection, to one pubend or to all."""
        lines = self._lines if pubend is None else [self._lines[pubend]]
        return [nack for line in lines for nack in line.reconnected(now_s)]

    @property
    def cached_bytes(self) -> int:
        return sum(line.stream.data.bytes for line in self._lines)


class _Line:
    """The part of a relay that serves one pubend."""

    def __init__(self, pubend: int, size_of: Callable[[Any], int], cache_bytes: int, wanted: Wanted) -> None:
        self._pubend = pubend
        self._size_of = size_of
        self._cache_bytes = cache_bytes
        self._filters = wanted
        self.stream = KnowledgeStream[Any]()
        self.fanout = Fanout(pubend)
        self._told = TickSet()
        self._has_begun = False
        self._wanted: dict[str, TickSet] = {}  # the ticks that each child is curious about
        self._cut_short: set[str] = set()
        self._room_bytes = 1
        self.asked = Asked()
        self.readers = Consolidation(pubend)
        self._latest: dict[str, Ack] = {}  # the last acknowledgement of each child that is not consolidated
        self._acks: dict[str, TickSet] = {}
        self._everywhere: dict[str, tuple[Ranges, ...]] = {}

    def leave(self, child: str) -> None:
        self.fanout.leave(child)
        self.readers.leave(child)
        self._latest.pop(child, None)
        self._wanted.pop(child, None)
        self._cut_short.discard(child)

    # Downstream

    def learn(self, message: KnowledgeMessage, now_s: float) -> list[Outgoing]:
        stream = self.stream
        self._know_loss(message.lost_end)
        if message.union != self._filters.digest:
            return self._learn_of_earlier(message)
        covered = self._accumulate(message)
        if self.asked.questions:
            self.asked.answered(covered, now_s, more=message.more)
        outgoing = self._forward(message, covered)
        stream.forget_oldest_data(self._cache_bytes)
        if len(stream.known) > MOST_RANGES:
            stream.forget(stream.final_end, stream.known.ranges()[MOST_RANGES // 2][0])
        if len(self._told) > MOST_RANGES:
            # A child that still needs the gaps asks for them.
            self._told.add(0, self._told.ranges()[MOST_RANGES // 2][0])
        return outgoing

    def _know_loss(self, lost_end: int) -> None:
        """Learn before which tick messages are forgotten upstream.

        A restarted pubend may have forgotten fewer messages. Then final ticks before the old ``lost_end`` become Q
        again.
        """
        if lost_end < self.fanout.lost_end:
            self.stream.forget(0, self.fanout.lost_end)
            self.fanout.take_back_loss(lost_end)
        else:
            self.fanout.lost_end = lost_end

    def _learn_of_earlier(self, message: KnowledgeMessage) -> list[Outgoing]:
        """Pass on knowledge for an earlier union of filters to the children in that union; do not keep it."""
        self._filters.is_due = True  # the parent may not know the present union
        if message.is_answer or not self._has_begun or message.union not in self._filters.earlier:
            return []
        covered = TickSet(message.final)
        covered.update((tick, tick + 1) for tick, _ in message.data)
        new = covered.difference(self._told)
        self._told.update(new)
        return self.fanout.forward(*_within(new, message), among=self._filters.earlier[message.union])

    def _accumulate(self, message: KnowledgeMessage) -> TickSet:
        stream, covered = self.stream, TickSet()
        parts: list[tuple[int, int, Any]] = [(first, end, None) for first, end in message.final]
        parts += [(tick, tick + 1, payload) for tick, payload in message.data]
        parts.sort(key=_FIRST)  # so that each range or tick extends the known ticks at their end
        for first, end, payload in parts:
            if payload is None:
                stream.accumulate_final(first, end)
            else:
                stream.accumulate_data(first, payload, self._size_of(payload))
            covered.add(first, end)
        return covered

    def _forward(self, message: KnowledgeMessage, covered: TickSet) -> list[Outgoing]:
        if covered and not (self._has_begun or message.is_answer):
            self._has_begun = True
            self._told.add(0, covered.first)
        if not self._has_begun:
            return self._answers(message, covered, TickSet())
        if covered.first >= self._told.end:  # the usual case: all of it is known
            self._told.update(covered)
            outgoing = self.fanout.forward(message.final, message.data)
            return outgoing + self._answers(message, covered, covered) if self._wanted else outgoing
        new = covered.difference(self._told)
        self._told.update(new)
        final, data = _within(new, message)
        return self.fanout.forward(final, data) + self._answers(message, covered, new)

    def _answers(self, message: KnowledgeMessage, covered: TickSet, new: TickSet) -> list[Outgoing]:
        outgoing: list[Outgoing] = []
        for child, wanted in list(self._wanted.items()):
            due = wanted.intersection(covered)
            if not due and child in self.fanout.children:
                continue
            final, data = _within(due.difference(new), message)
            more = message.more or child in self._cut_short
            outgoing += self.fanout.answer(child, final, data, more=more)
            # If the answer is lost, the child becomes curious again.
            wanted.difference_update(due)
            if message.more or wanted.end == FOREVER:
                wanted.remove(due.end, FOREVER)  # earlier ticks may be on their way from elsewhere
            self._cut_short.discard(child)
            if not wanted or child not in self.fanout.children:
                del self._wanted[child]
        return outgoing

    # Upstream

    def nack(self, child: str, nack: Nack, now_s: float) -> tuple[list[Outgoing], list[Upstream]]:
        if child not in self.fanout.children:
            return [], []
        final: list[TickRange] = []
        data: list[tuple[int, Any]] = []
        unknown = TickSet()
        room = room_above = max(1, min(nack.room_bytes, MOST_ANSWERED_BYTES))
        most = MOST_ANSWERED
        more = False
        for first, end in nack.ranges:
            if room <= 0 or most <= 0:
                more = True
                break
            gaps = self.stream.known.missing(first, end)
            # Ticks behind a gap must wait: they would take the room of the ticks in the gap.
            known_end = gaps[0][0] if gaps else end
            if unknown and end == FOREVER:
                more = more or first < known_end
            else:
                found, reached = self.stream.data.read(first, known_end, room, most)
                data += found
                most -= len(found)
                room -= sum(self._size_of(payload) for _, payload in found)
                final += self.stream.finals(first, reached)
                if reached < known_end:
                    more = True
                    break
                room_above = room_above if unknown else room
            unknown.update(gaps)
            more = more or bool(gaps and gaps[0][1] < end)
        outgoing = self.fanout.answer(child, tuple(final), data, more=more and not unknown)
        if not unknown or child not in self.fanout.children:
            return outgoing, []
        if more:
            self._cut_short.add(child)
        self._wanted.setdefault(child, TickSet()).update(unknown)
        self._room_bytes = max(1, room_above)
        return outgoing, self._ask(unknown, now_s)

    def _ask(self, unknown: TickSet, now_s: float) -> list[Upstream]:
        new = self.asked.ask(unknown, now_s)
        return [Nack(self._pubend, new.ranges(), self._room_bytes)] if new else []

    def reconnected(self, now_s: float) -> list[Upstream]:
        self._know_loss(0)
        self.readers.name_all()
        self.asked.questions.clear()
        unknown = TickSet(part for wanted in self._wanted.values() for part in wanted)
        return self._ask(unknown, now_s) if unknown else []

    def ack(self, child: str, ack: Ack | ConsolidatedAck) -> list[Outgoing]:
        if child not in self.fanout.children:
            return []
        if isinstance(ack, ConsolidatedAck):
            is_understood = self.readers.hear(child, ack)
            return [] if is_understood else [Outgoing(child, Stranger(self._pubend, ""))]
        if ack.may_consolidate:
            for reader, ranges in ack.acks.items():
                self.readers.hear(child, of_one(self._pubend, reader, prefix_end(ranges)))
            return []
        if child in ack.acks:
            self._latest[child] = repeated(child, ack)
        self._pass_on(ack)
        return []

    def _pass_on(self, ack: Ack) -> None:
        for name, ranges in ack.acks.items():
            self._acks.setdefault(name, TickSet()).update(ranges)
        for name, vector in ack.everywhere.items():
            self._everywhere[name] = merged(self._everywhere.get(name, ()), vector)

    def show_life(self) -> None:
        self.readers.is_due = True
        for child in self.fanout.children:
            if not child.startswith(RELAY_PREFIX) and child not in self.readers:
                self._pass_on(self._latest.get(child, Ack(self._pubend, {child: ()})))

    def take_acks(self) -> list[Upstream]:
        names = list(islice(self._acks, MOST_ACKS))
        acks = {name: self._acks.pop(name).ranges() for name in names}
        everywhere = {name: self._everywhere.pop(name) for name in names if name in self._everywhere}
        passed_on: list[Upstream] = [Ack(self._pubend, acks, everywhere)] if acks else []
        return passed_on + self.readers.take()


def _within(ticks: TickSet, message: KnowledgeMessage) -> tuple[Ranges, list[tuple[int, Any]]]:
    if not ticks:
        return (), []
    data = [(tick, payload) for tick, payload in message.data if tick in ticks]
    return TickSet(message.final).intersection(ticks).ranges(), data
