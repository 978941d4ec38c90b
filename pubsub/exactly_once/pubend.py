"""The pubend, where knowledge begins: each message gets a tick, and is told once it is durable. No I/O.

Invariants:

- Nothing is told of a tick before all that it depends on is durable in the log: a message itself, or, for silence up to
  a tick, the reservation of that tick. So what was told is as true after a restart.
- A message is put on a tick that is later than all that was told or logged before, and that no other pubend uses:
  pubend p of n only uses ticks with remainder p when divided by n.
- What is told is a prefix: up to `told_end` every tick is D or F, from there on nothing is known.
- Ticks that somebody who subscribes may need are final only if they were silent. Once all subscriptions have
  acknowledged ticks, they are final, and the log may forget them.
- Whoever is told anything is told before which tick messages are forgotten. So who comes back when his subscription has
  ended finds out if he has missed any, and never takes them for silence.

Source: seed "Gryphon exactly-once", section 2.2.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from tidewheel.pubsub.exactly_once.fanout import Fanout, Filter, Outgoing
from tidewheel.pubsub.exactly_once.messages import Ack, Nack, Ranges
from tidewheel.pubsub.exactly_once.subscriptions import Subscriptions
from tidewheel.pubsub.exactly_once.tick_messages import TickMessages
from tidewheel.pubsub.exactly_once.tick_set import FOREVER, TickRange

CACHE_BYTES = 4 * 1024 * 1024
"""The system has the rest of the log in memory; more than the processor keeps at hand makes each message slower."""


class LoggedMessages(Protocol):
    """The messages that are durable."""

    def read(self, first: int, end: int, max_bytes: int) -> tuple[list[tuple[int, Any]], int]:
        """Return the messages from tick ``first`` up to ``end``, in order, and how far that is all.

        That is to ``end``, or, where there is more than ``max_bytes``, one after the last message returned; one is
        returned in any case.
        """


class Start(NamedTuple):
    """Where a subscription begins, or goes on.

    Attributes:
        acknowledged: what it has acknowledged, so that it is final for it.
        told_end: what is known now ends here; more will come.
    """

    acknowledged: Ranges
    told_end: int


class Pubend:
    """One partition of a topic.

    Args:
        number: which it is.
        pubends: how many the topic has.
        log: what was published.
        size_of: how many bytes a message has.
        cache_bytes: how much of what was published last is kept in memory.
        next_tick: the first tick that was neither logged nor reserved, 0 for a new log.
        first_tick: the first tick that the log has not forgotten.
        message_end: from here on up to ``next_tick`` there are no messages; by default nothing is known of that.
        lost_end: all messages that the log has forgotten are before this tick.
    """

    def __init__(  # noqa: PLR0913 - what was found in a log, one by one
        self,
        number: int,
        pubends: int,
        log: LoggedMessages,
        size_of: Callable[[Any], int],
        *,
        cache_bytes: int = CACHE_BYTES,
        next_tick: int = 0,
        first_tick: int = 0,
        message_end: int | None = None,
        lost_end: int = 0,
    ) -> None:
        self._number = number
        self._pubends = pubends
        self._log = log
        self._size_of = size_of
        self._cache_bytes = cache_bytes
        self._next_tick = next_tick
        self._reserved = self._to_reserve = next_tick
        self._pending: deque[tuple[int, Any]] = deque()
        self._told_end = next_tick
        self._forgotten_end = first_tick
        self._cache = TickMessages[Any]()
        self._message_end = self._cached_from = next_tick if message_end is None else message_end
        self._fanout = Fanout(number)
        self._fanout.lost_end = lost_end
        self.subscriptions = Subscriptions()

    # What is published

    def assign(self, messages: Iterable[Any], now: int) -> list[tuple[int, Any]]:
        """Give messages their ticks; they have to be logged in this order, and then `logged` be called.

        Args:
            messages: they come one after the other.
            now: the tick that it is by the clock; one that goes back does no harm.
        """
        tick = max(self._next_tick, now)
        tick += (self._number - tick) % self._pubends
        assigned = []
        for message in messages:
            assigned.append((tick, message))
            tick += self._pubends
        if assigned:
            self._pending.extend(assigned)
            self._next_tick = assigned[-1][0] + 1
        return assigned

    def pass_over(self, now: int) -> int:
        """Return a tick for what is logged and is no message.

        What comes after this has a later one, also a message: that this is durable says nothing of what has come since.
        """
        tick = max(self._next_tick, now)
        self._next_tick = tick + 1
        return tick

    def logged(self, tick: int) -> list[Outgoing]:
        """Take note that all messages up to ``tick`` are durable; return what to tell."""
        data = []
        while self._pending and self._pending[0][0] <= tick:
            data.append(self._pending.popleft())
        if not data:
            return []
        for at, message in data:
            self._cache.add(at, message, self._size_of(message))
        last = self._cache.oldest_over(self._cache_bytes)
        if last is not None:
            self._cache.remove(0, last + 1)
            self._cached_from = last + 1
        begin, self._told_end = self._told_end, data[-1][0] + 1
        self._message_end = self._told_end
        return self._fanout.forward(gaps(begin, self._told_end, data), data)

    def reserve(self, now: int, ahead: int) -> int | None:
        """Return a tick to reserve in the log so that silence can be told; None if there is no need.

        Args:
            now: the tick that it is by the clock.
            ahead: for how many ticks after it to reserve, so that it is not necessary each time.
        """
        if now + ahead // 2 <= self._to_reserve:
            return None
        self._to_reserve = now + ahead
        return self._to_reserve

    def reserved(self, tick: int) -> None:
        """Take note that it is durable that silence may be told up to ``tick``."""
        self._reserved = max(self._reserved, tick)

    def be_silent(self, now: int) -> list[Outgoing]:
        """Tell, also what has waited to be told, that nothing was published up to now, as far as that is so.

        That is up to the first message that is not durable, and to what is reserved.
        """
        end = min(now, self._reserved, self._pending[0][0] if self._pending else FOREVER)
        if end <= self._told_end:
            return self._fanout.flush()
        begin, self._told_end = self._told_end, end
        self._next_tick = max(self._next_tick, end)
        return self._fanout.forward(((begin, end),), ()) + self._fanout.flush()

    # Who is downstream

    def join(self, child: str, where: Filter | None = None) -> None:
        """Take on a subend or relay; what is told from now on is told to it."""
        self._fanout.join(child, where)

    def leave(self, child: str) -> None:
        """Forget a child; does nothing if it is none."""
        self._fanout.leave(child)

    def nack(self, child: str, nack: Nack) -> list[Outgoing]:
        """Answer a child that is curious, as far as its room goes."""
        room = max(1, nack.room_bytes)
        final: list[TickRange] = []
        data: list[tuple[int, Any]] = []
        more = False
        for first, open_end in nack.ranges:
            position, end = first, min(open_end, self._told_end)
            more = more or (room <= 0 and position < end)
            while position < end and not more:
                found, reached = self._read(position, end, room)
                final += gaps(position, reached, found)
                data += found
                room -= sum(self._size_of(message) for _, message in found)
                position = reached
                more = room <= 0 and position < end
        return self._fanout.answer(child, tuple(final), data, more=more)

    def _read(self, first: int, end: int, room: int) -> tuple[list[tuple[int, Any]], int]:
        """Return messages of a range, and how far that is all."""
        if first < self._forgotten_end:
            return [], min(end, self._forgotten_end)
        if first < self._cached_from:
            return self._log.read(first, min(end, self._cached_from), room)
        return self._cache.read(first, end, room)

    # What is needed no more

    def subscribe(self, name: str, tick: int | None = None, reader: str | None = None) -> Start:
        """Take on a subscription from a tick on, by default from what is told next; or go on with the one there is.

        Args:
            name: of the subscription.
            tick: where one begins that is not known.
            reader: who has it from now on; by default somebody with the name of the subscription.
        """
        begin = self._told_end if tick is None else max(tick, self._forgotten_end)
        acknowledged = self.subscriptions.begin(name, begin)
        self.subscriptions.give(name, name if reader is None else reader)
        return Start(acknowledged, self._told_end)

    def ack(self, ack: Ack) -> list[str]:
        """Take acknowledgements; return the subscriptions that said something new."""
        names = ((self.subscriptions.name_of(reader), ranges) for reader, ranges in ack.acks.items())
        return [name for name, ranges in names if name is not None and self.subscriptions.acknowledge(name, ranges)]

    def strangers(self, ack: Ack) -> list[str]:
        """Return the readers of whom nothing is taken: they have no subscription, or no more."""
        return [reader for reader in ack.acks if self.subscriptions.name_of(reader) is None]

    def forget(self, tick: int | None = None) -> int:
        """Forget what all subscriptions have acknowledged, or all before ``tick``; return the first tick that is kept.

        What is forgotten is final. Without subscriptions nothing is, unless ``tick`` is given. Who has not had all
        messages before it finds out, by the `lost_end` of whatever he is told next.
        """
        needed = self.subscriptions.needed_from if tick is None else tick
        end = self._forgotten_end if needed is None else min(needed, self._told_end)
        if end > self._forgotten_end:
            self._fanout.lost_end = max(self._fanout.lost_end, self._messages_before(end))
            self._forgotten_end = end
            self._cache.remove(0, end)
        return self._forgotten_end

    def _messages_before(self, tick: int) -> int:
        """Return a tick such that all messages before ``tick`` are before it: the first such, if that is known."""
        if tick <= self._cached_from:
            return tick
        last = self._cache.last_before(tick)
        return self._cached_from if last is None else last + 1

    @property
    def told_end(self) -> int:
        """What is known ends here: each tick before it is D or F."""
        return self._told_end

    @property
    def first_tick(self) -> int:
        """The first tick that is not forgotten."""
        return self._forgotten_end

    @property
    def lost_end(self) -> int:
        """All messages that are forgotten are before this tick."""
        return self._fanout.lost_end

    @property
    def message_end(self) -> int:
        """All messages that were told are before this tick."""
        return self._message_end

    def reaching(self, reader: str) -> list[str]:
        """Return the children to tell what concerns a reader."""
        return self._fanout.reaching(reader)

    @property
    def children(self) -> int:
        """How many children there are."""
        return len(self._fanout)


def gaps(first: int, end: int, data: Iterable[tuple[int, Any]]) -> Ranges:
    """Return what is left of a range without the ticks of messages, which are in it, and in order."""
    found = []
    for tick, _ in data:
        if first < tick:
            found.append((first, tick))
        first = tick + 1
    if first < end:
        found.append((first, end))
    return tuple(found)
