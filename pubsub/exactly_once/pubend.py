"""The pubend, where knowledge begins: each message gets a tick, and is sent once it is durable. No I/O.

Invariants:

- The pubend announces a message once the log holds it. It announces silence at a tick once the log holds a reservation
  of that tick or a later tick. So all announcements are still true after a restart.
- A message gets a later tick than all announced or logged ticks. Pubend p of n uses only ticks with remainder p when
  divided by n.
- Every tick before `told_end` is D (a message) or F (final); later ticks are Q (unknown); see `knowledge.py`.
- A child may ask for later ticks, up to an end. The pubend then promises that these ticks are silent, and gives new
  messages later ticks. So the order of pubends does not depend on their clocks.
- While a subscription may need a tick, the tick is final only if it was silent. Ticks that all subscriptions have
  acknowledged are final, and the log may forget them (`subscriptions.py`).
- A subend whose answer was cut short asks for all later ticks. It receives no new messages, only answers, until an
  answer is not cut short.
- Every message downstream has the tick before which messages are forgotten. So a reader that returns after the end of
  its subscription does not take missed messages for silence.

Source: seed "Gryphon exactly-once", section 2.2.
"""

from collections import deque
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, Protocol

from tidewheel.pubsub.exactly_once.fanout import Fanout, Outgoing
from tidewheel.pubsub.exactly_once.tick_clock import TickClock
from tidewheel.pubsub.exactly_once.tick_messages import TickMessages
from tidewheel.pubsub.messages.delivery_messages import MOST_ANSWERED, MOST_ANSWERED_BYTES, RELAY_PREFIX, Nack
from tidewheel.pubsub.messages.tick_set import FOREVER, TickRange, gaps

_TICK = itemgetter(0)

CACHE_BYTES = 4 * 1024 * 1024
"""The default size of the cache. A larger one would not fit into the processor's caches, and the system keeps the log's
pages in memory anyway."""


class NotReady(Exception):  # noqa: N818  it names what is so
    """A part of the log must be fetched first.

    Attributes:
        fetch: fetches the part; slow, and may run on any thread.
    """

    def __init__(self, key: object, fetch: Callable[[], object]) -> None:
        super().__init__(key)
        self.key = key
        self.fetch = fetch


class LoggedMessages(Protocol):
    """The durable messages."""

    def read(self, first: int, end: int, max_bytes: int) -> tuple[list[tuple[int, Any]], int]:
        """Return the messages from tick ``first`` up to ``end``, in order, and the end of the range read.

        The range read ends at ``end``, or earlier if the messages exceed ``max_bytes`` or reading more would take long.
        It is never empty.
        """


class Pubend:
    """One partition of a topic.

    Args:
        cache_bytes: how many bytes of the latest messages it keeps in memory.
        next_tick: the first tick that is neither logged nor reserved; 0 for a new log.
        first_tick: the first tick that the log has not forgotten; also an attribute.
        message_end: the ticks from here up to ``next_tick`` have no messages; None if unknown.
        lost_end: all messages that the log has forgotten are before this tick.

    Attributes:
        message_end: all announced messages are before this tick.
        wanted_end: children have asked for the ticks before this one, and will get their silence soon.
    """

    def __init__(  # noqa: PLR0913 - the state of a log, by name
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
        self._clock = TickClock(next_tick)
        self.wanted_end = 0
        self._reserved = self._to_reserve = next_tick
        self._pending: deque[tuple[int, Any]] = deque()
        self.told_end = next_tick
        self.first_tick = first_tick
        self._cache = TickMessages[Any]()
        self.message_end = self._cached_from = next_tick if message_end is None else message_end
        self.fanout = Fanout(number)
        self.fanout.lost_end = lost_end

    # Messages

    def assign(self, messages: Iterable[Any], now: int) -> list[tuple[int, Any]]:
        """Assign ticks to messages; the caller logs them in this order, and then calls `logged`."""
        tick = max(self._next_tick, self._clock.at(now))
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
        """Return a tick for a log entry that is not a message; later messages get later ticks."""
        tick = max(self._next_tick, self._clock.at(now))
        self._next_tick = tick + 1
        return tick

    def logged(self, tick: int) -> list[Outgoing]:
        """Record that all messages up to ``tick`` are durable; return the messages for children."""
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
        begin, self.told_end = self.told_end, data[-1][0] + 1
        self.message_end = self.told_end
        return self.fanout.forward(gaps(begin, self.told_end, map(_TICK, data)), data)

    def reserve(self, now: int, ahead: int) -> int | None:
        """Return a tick to reserve in the log before announcing silence; None if no reservation is needed.

        The tick is ``ahead`` ticks later than needed now.
        """
        tick = self._clock.at(now)
        if tick + ahead // 2 <= self._to_reserve:
            return None
        self._to_reserve = tick + ahead
        return self._to_reserve

    def reserved(self, tick: int) -> None:
        self._reserved = max(self._reserved, tick)

    def be_silent(self, now: int, ahead: int = 0) -> list[Outgoing]:
        """Return the messages that announce that the ticks up to ``now`` are silent.

        The silent ticks end before the first message that is not durable, and at the reserved tick. Up to ``ahead``
        later ticks are promised silent, too: at most half the time since the last message, so a busy pubend promises
        almost none.
        """
        tick = self._clock.at(now)
        tick += min(ahead, max(0, tick - self.message_end) // 2)
        end = min(tick, self._reserved, self._pending[0][0] if self._pending else FOREVER)
        if end <= self.told_end:
            return self.fanout.flush()
        begin, self.told_end = self.told_end, end
        self._next_tick = max(self._next_tick, end)
        return self.fanout.forward(((begin, end),), ()) + self.fanout.flush()

    def nack(self, child: str, nack: Nack) -> list[Outgoing]:
        """Return an answer to a child's nack, limited by the child's room and by what can be read quickly.

        If the child asks for ticks that are not announced yet, the clock continues from their end.

        Raises:
            NotReady: the first messages must be fetched from the log; call again afterwards.
        """
        wanted_end = max((end for _, end in nack.ranges if end < FOREVER), default=0)
        if wanted_end > self.told_end:
            self.wanted_end = max(self.wanted_end, wanted_end)
            self._clock.reach(wanted_end)
        room, most = max(1, min(nack.room_bytes, MOST_ANSWERED_BYTES)), MOST_ANSWERED
        final: list[TickRange] = []
        data: list[tuple[int, Any]] = []
        more = False
        for first, open_end in nack.ranges:
            position, end = first, min(open_end, self.told_end)
            more = more or ((room <= 0 or most <= 0) and position < end)
            while position < end and not more:
                try:
                    found, reached, is_cut = self._read(position, end, room, most)
                except NotReady:
                    if not final and not data:
                        raise
                    more = True
                    break
                final += gaps(position, reached, map(_TICK, found))
                data += found
                room -= sum(self._size_of(message) for _, message in found)
                most -= len(found)
                position = reached
                more = position < end and (is_cut or room <= 0 or most <= 0)
        # New messages would fill the room of a subend that is far behind, and it would forget them.
        if more and not child.startswith(RELAY_PREFIX):
            self.fanout.behind.add(child)
        else:
            self.fanout.behind.discard(child)
        return self.fanout.answer(child, tuple(final), data, more=more)

    def _read(self, first: int, end: int, room: int, most: int) -> tuple[list[tuple[int, Any]], int, bool]:
        """Return messages of a range, the end of the range read, and whether it was cut short."""
        if first < self.first_tick:
            return [], min(end, self.first_tick), False
        if first < self._cached_from:
            end = min(end, self._cached_from)
            found, reached = self._log.read(first, end, room)
        else:
            found, reached = self._cache.read(first, end, room, most)
        return found, reached, reached < end

    def forget(self, tick: int | None) -> int:
        """Forget the ticks before ``tick``, which become final; return the first kept tick.

        A reader that has not received a forgotten message learns of the loss from ``lost_end`` in the next message.
        """
        end = self.first_tick if tick is None else min(tick, self.told_end)
        if end > self.first_tick:
            self.fanout.lost_end = max(self.fanout.lost_end, self._messages_before(end))
            self.first_tick = end
            self._cache.remove(0, end)
        return self.first_tick

    def _messages_before(self, tick: int) -> int:
        """Return the tick after the last message before ``tick``, or a later tick if that one is unknown."""
        if tick <= self._cached_from:
            return tick
        last = self._cache.last_before(tick)
        return self._cached_from if last is None else last + 1
