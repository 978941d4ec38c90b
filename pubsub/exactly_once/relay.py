"""Between pubends and subends: tells many what it was told once, and asks once for many. No I/O, and soft state only.

Invariants:

- A relay never says more than it was told: what it has forgotten is Q again, and may be asked for upstream.
- It makes nothing final by itself. That all children of now have acknowledged something does not mean that nobody will
  come who needs it: only the pubend knows all subscriptions. So such knowledge is forgotten, if at all.
- New knowledge goes to all children, if it is later than what the relay began with; otherwise it is an answer, and goes
  to the children that were curious.
- While a nack is upstream, no other goes upstream for the same ticks, until it is answered or too late.

Source: seed "Gryphon exactly-once", sections 2.1.1, 2.4 and 3.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tidewheel.pubsub.exactly_once.asked import Asked
from tidewheel.pubsub.exactly_once.curiosity import CuriosityStream
from tidewheel.pubsub.exactly_once.fanout import Fanout, Filter, Outgoing
from tidewheel.pubsub.exactly_once.knowledge import KnowledgeStream
from tidewheel.pubsub.exactly_once.messages import Ack, KnowledgeMessage, Nack, Rejected, Upstream
from tidewheel.pubsub.exactly_once.pubend import CACHE_BYTES
from tidewheel.pubsub.exactly_once.tick_set import FOREVER, TickRange, TickSet


class Relay:
    """One relay of a topic.

    Args:
        pubends: how many the topic has.
        size_of: how many bytes a message has.
        cache_bytes: how much of the latest messages of each pubend is kept.
    """

    def __init__(self, pubends: int, size_of: Callable[[Any], int], *, cache_bytes: int = CACHE_BYTES) -> None:
        self._lines = [_Line(pubend, size_of, cache_bytes) for pubend in range(pubends)]

    def join(self, child: str, where: Filter | None = None) -> None:
        """Take on a subend, or another relay."""
        for line in self._lines:
            line.fanout.join(child, where)

    def leave(self, child: str) -> None:
        """Forget a child; does nothing if it is none."""
        for line in self._lines:
            line.leave(child)

    def receive(self, message: KnowledgeMessage | Rejected, now_s: float) -> list[Outgoing]:
        """Take what comes from upstream; return what to tell."""
        line = self._lines[message.pubend]
        if isinstance(message, Rejected):
            return line.reject(message)
        return line.learn(message, now_s)

    def nack(self, child: str, nack: Nack, now_s: float) -> tuple[list[Outgoing], list[Upstream]]:
        """Take a nack; return what to tell the child, and what to ask upstream."""
        return self._lines[nack.pubend].nack(child, nack, now_s)

    def ack(self, ack: Ack) -> None:
        """Take acknowledgements of a child; they wait for `flush`."""
        self._lines[ack.pubend].ack(ack)

    def flush(self) -> tuple[list[Outgoing], list[Upstream]]:
        """Return silence and acknowledgements that have waited to be told."""
        told = [outgoing for line in self._lines for outgoing in line.fanout.flush()]
        return told, [ack for line in self._lines for ack in line.take_acks()]

    @property
    def cached_bytes(self) -> int:
        """How many bytes of messages it has."""
        return sum(line.stream.data_bytes for line in self._lines)


class _Line:
    """What a relay has to do with one pubend."""

    def __init__(self, pubend: int, size_of: Callable[[Any], int], cache_bytes: int) -> None:
        self._pubend = pubend
        self._size_of = size_of
        self._cache_bytes = cache_bytes
        self.stream = KnowledgeStream[Any]()
        self.fanout = Fanout(pubend)
        self._told = TickSet()
        self._has_begun = False
        self._curiosity: dict[str, CuriosityStream] = {}
        self._asked = Asked()
        self._acks: dict[str, TickSet] = {}

    def leave(self, child: str) -> None:
        self.fanout.leave(child)
        self._curiosity.pop(child, None)

    def reject(self, message: Rejected) -> list[Outgoing]:
        return [Outgoing(child, message) for child in self.fanout.children]

    # Downstream

    def learn(self, message: KnowledgeMessage, now_s: float) -> list[Outgoing]:
        stream = self.stream
        covered = TickSet(message.final)
        for tick, _ in message.data:
            covered.add(tick, tick + 1)
        for first, end in message.final:
            stream.accumulate_final(first, end)
        for tick, payload in message.data:
            stream.accumulate_data(tick, payload, self._size_of(payload))
        if covered and not self._has_begun:
            self._has_begun = True
            self._told.add(0, covered.ranges()[0][0])
        self._asked.answered(covered, now_s, more=message.more)
        new = covered.difference(self._told)
        self._told.update(new)
        data = [(tick, payload) for tick, payload in message.data if tick in new]
        final = TickSet(message.final).intersection(new)
        outgoing = self.fanout.forward(final.ranges(), data)
        outgoing += self._answers(message, covered, new)
        stream.forget_oldest_data(self._cache_bytes)
        return outgoing

    def _answers(self, message: KnowledgeMessage, covered: TickSet, new: TickSet) -> list[Outgoing]:
        """Return what those who were curious have not been told with the others."""
        outgoing: list[Outgoing] = []
        for child, curiosity in list(self._curiosity.items()):
            due = curiosity.wanted.intersection(covered)
            if not due:
                continue
            rest = due.difference(new)
            data = [(tick, payload) for tick, payload in message.data if tick in rest]
            final = TickSet(message.final).intersection(rest)
            outgoing += self.fanout.answer(child, final.ranges(), data, more=message.more)
            curiosity.satisfied(due)
            if message.more or not curiosity.wanted:
                del self._curiosity[child]
        return outgoing

    # Upstream

    def nack(self, child: str, nack: Nack, now_s: float) -> tuple[list[Outgoing], list[Upstream]]:
        if child not in self.fanout:
            return [], []
        final: list[TickRange] = []
        data: list[tuple[int, Any]] = []
        unknown = TickSet()
        room = nack.room_bytes
        for first, end in nack.ranges:
            unknown.update(self.stream.unknown(first, end))
            final += self.stream.finals(first, end)
            data += self.stream.data_between(first, end)
        reached = self._within(room, data)
        if reached is not None:
            data = [(tick, payload) for tick, payload in data if tick < reached]
            final = list(TickSet(final).difference(TickSet([(reached, FOREVER)])))
            unknown.remove(reached, FOREVER)
        outgoing = self.fanout.answer(child, tuple(final), data, more=reached is not None and not unknown)
        if not unknown:
            return outgoing, []
        self._curiosity.setdefault(child, CuriosityStream()).curious(unknown)
        new = self._asked.ask(unknown, now_s)
        return outgoing, [Nack(self._pubend, new.ranges(), max(1, room))] if new else []

    def _within(self, room: int, data: Iterable[tuple[int, Any]]) -> int | None:
        """Return the tick after the last message for which there is room; None if there is room for all."""
        messages = list(data)
        for index, (tick, payload) in enumerate(messages):
            room -= self._size_of(payload)
            if room <= 0 and index + 1 < len(messages):
                return tick + 1
        return None

    def ack(self, ack: Ack) -> None:
        for name, ranges in ack.acks.items():
            self._acks.setdefault(name, TickSet()).update(ranges)

    def take_acks(self) -> list[Upstream]:
        acks, self._acks = self._acks, {}
        if not acks:
            return []
        return [Ack(self._pubend, {name: acknowledged.ranges() for name, acknowledged in acks.items()})]
