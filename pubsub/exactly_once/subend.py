"""Where knowledge is consumed: messages in order, none missing, each once. No I/O.

Invariants:

- Messages are delivered in the order of their ticks, and none before all earlier ticks of its pubend are known: up to
  the doubt horizon. In total order, none before all earlier ticks of all pubends are.
- A tick is acknowledged once it is final, or its message was delivered and is acknowledged by who reads.
- What there is no room for is forgotten, the latest first, and asked for again when there is room: so memory is bounded
  however far the reader is behind.

What is missing is asked for: after a time for gaps, which may just be out of order; at once where it is known that
nobody will send it by himself; and after a longer time where nothing comes at all.

Source: seed "Gryphon exactly-once", section 2.3.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Literal, NamedTuple, TypeAlias

from tidewheel.pubsub.exactly_once.knowledge import KnowledgeStream
from tidewheel.pubsub.exactly_once.messages import Ack, KnowledgeMessage, Nack, Upstream
from tidewheel.pubsub.exactly_once.pubend import Start
from tidewheel.pubsub.exactly_once.round_trips import RoundTrips
from tidewheel.pubsub.exactly_once.tick_set import FOREVER, TickRange, TickSet

Order: TypeAlias = Literal["publisher", "total"]

ROOM_BYTES = 8 * 1024 * 1024
IDLE_S = 1.0


class Delivered(NamedTuple):
    """A message for the reader."""

    pubend: int
    tick: int
    message: Any


class Subend:
    """One subscription.

    Args:
        name: of the subscription.
        starts: where it begins at each pubend, by the number of that.
        size_of: how many bytes a message has.
        order: of messages of different pubends: any, or that of their ticks.
        room_bytes: how much of each pubend may wait to be delivered; a message that is larger may wait alone.
        idle_s: after so long without a word something may have been lost, in seconds.
    """

    def __init__(
        self,
        name: str,
        starts: Mapping[int, Start],
        size_of: Callable[[Any], int],
        *,
        order: Order = "publisher",
        room_bytes: int = ROOM_BYTES,
        idle_s: float = IDLE_S,
    ) -> None:
        self._name = name
        self._order = order
        self._incoming = {
            pubend: _Incoming(pubend, start, size_of, room_bytes, idle_s) for pubend, start in sorted(starts.items())
        }

    def receive(self, message: KnowledgeMessage, now_s: float) -> None:
        """Take what comes from upstream."""
        self._incoming[message.pubend].learn(message, now_s)

    def take(self) -> list[Delivered]:
        """Return what can be delivered now, each message once."""
        if self._order == "publisher":
            return [message for incoming in self._incoming.values() for message in incoming.take(incoming.horizon)]
        horizon = min(incoming.horizon for incoming in self._incoming.values())
        together = [message for incoming in self._incoming.values() for message in incoming.take(horizon)]
        together.sort(key=lambda message: message.tick)
        return together

    def acknowledge(self, pubend: int, tick: int) -> None:
        """Take note that the reader is done with a message that was delivered."""
        incoming = self._incoming[pubend]
        incoming.acknowledged.add(tick, tick + 1)
        incoming.has_new_acks = True

    def ask(self, now_s: float) -> list[Upstream]:
        """Return what to ask for now."""
        return [nack for incoming in self._incoming.values() for nack in incoming.ask(now_s)]

    def ask_at_s(self) -> float:
        """Return when to call `ask` again, if nothing comes before."""
        return min(incoming.ask_at_s for incoming in self._incoming.values())

    def acks(self) -> list[Upstream]:
        """Return all that is acknowledged, where there is more of it than was returned before."""
        found: list[Upstream] = []
        for pubend, incoming in self._incoming.items():
            ranges = incoming.new_acks()
            if ranges is not None:
                found.append(Ack(pubend, {self._name: ranges}))
        return found

    def repeat_acks(self) -> None:
        """Have `acks` return everything again, since it may have been lost."""
        for incoming in self._incoming.values():
            incoming.has_new_acks = True

    def reconnected(self) -> None:
        """Take note that there is another upstream, which knows nothing of what was asked."""
        for incoming in self._incoming.values():
            incoming.reconnected()

    @property
    def waiting_bytes(self) -> int:
        """How many bytes wait to be delivered."""
        return sum(incoming.stream.data_bytes for incoming in self._incoming.values())

    def horizon(self, pubend: int) -> int:
        """Return the doubt horizon of a pubend: the first tick of which nothing is known."""
        return self._incoming[pubend].horizon


class _Incoming:
    """What comes from one pubend."""

    def __init__(
        self, pubend: int, start: Start, size_of: Callable[[Any], int], room_bytes: int, idle_s: float
    ) -> None:
        self._pubend = pubend
        self._size_of = size_of
        self._room_bytes = room_bytes
        self._idle_s = idle_s
        self._trips = RoundTrips()
        self.stream = KnowledgeStream[Any]()
        self.acknowledged = TickSet(start.acknowledged)
        for first, end in start.acknowledged:
            self.stream.accumulate_final(first, end)
        self._position = self.stream.doubt_horizon()
        self._behind_until = start.told_end  # what is before will not come unless it is asked for
        self._asked: int | None = None
        self._is_timed = False
        self._asked_s = 0.0
        self._in_vain = 0
        self._gap_s: float | None = None
        self._heard_s: float | None = None
        self.has_new_acks = False

    @property
    def horizon(self) -> int:
        return self.stream.doubt_horizon(self._position)

    def learn(self, message: KnowledgeMessage, now_s: float) -> None:
        stream = self.stream
        self._heard_s = now_s
        for first, end in message.final:
            stream.accumulate_final(first, end)
        for tick, payload in message.data:
            stream.accumulate_data(tick, payload, self._size_of(payload))
        # What comes of later ticks only is no answer: there would be no end of asking.
        if self._asked is not None and self.horizon > self._asked:
            if self._is_timed and not self._in_vain:
                self._trips.learn(now_s - self._asked_s)
            self._asked, self._in_vain = None, 0
            self._gap_s = now_s
        if message.more:
            self._behind_until = max(self._behind_until, self.horizon + 1)
        if stream.data_bytes > self._room_bytes and stream.data_count > 1:
            self._make_room()

    def _make_room(self) -> None:
        """Forget what there is no room for, though never the next message."""
        oldest = self.stream.oldest_data
        least = 0 if oldest is None else self._size_of(oldest[1])
        self._forget(max(self._room_bytes, least))

    def _forget(self, max_bytes: int) -> None:
        self._behind_until = max(self._behind_until, self.stream.known_end)
        self.stream.forget_latest_data(max_bytes)

    def take(self, horizon: int) -> list[Delivered]:
        if horizon <= self._position:
            return []
        data = self.stream.data_between(self._position, horizon)
        silent = TickSet([(self._position, horizon)])
        for tick, _ in data:
            silent.remove(tick, tick + 1)
        self.acknowledged.update(silent)
        self.has_new_acks = True
        self.stream.accumulate_final(self._position, horizon)
        self._position = horizon
        return [Delivered(self._pubend, tick, message) for tick, message in data]

    # ------------------------------------------------------------------ asking

    def ask(self, now_s: float) -> list[Nack]:
        if self._heard_s is None:
            self._heard_s = now_s
        if self._gaps() and not self._has_room():
            # What lies behind the gap must not keep out what is in it; what lies before it has its turn soon.
            before = self.stream.data_between(self._position, self.horizon)
            keep = sum(self._size_of(message) for _, message in before)
            self._forget(max(keep, self._room_bytes // 2))
        gaps = self._gaps()
        if not gaps:
            self._gap_s = None
        elif self._gap_s is None:
            self._gap_s = now_s
        if now_s < self.ask_at_s:
            return []
        if self._asked is not None:
            self._in_vain += 1
        ranges = gaps or ((self.horizon, FOREVER),)
        self._asked, self._asked_s, self._is_timed = self.horizon, now_s, bool(gaps)
        return [Nack(self._pubend, ranges, self._room_bytes - self.stream.data_bytes)]

    def _gaps(self) -> tuple[TickRange, ...]:
        return self.stream.unknown(self.horizon, max(self.horizon, self.stream.known_end))

    def _has_room(self) -> bool:
        """Tell whether it is worth the while to ask: for as much as may be there, or else for the next message."""
        return self.stream.data_bytes <= self._room_bytes // 2 or not self.stream.data_count

    @property
    def ask_at_s(self) -> float:
        if not self._has_room():
            return inf
        if self._asked is not None:
            return self._asked_s + self._trips.wait_s(self._in_vain)
        if self.horizon < self._behind_until:
            return 0.0
        wait_s = self._trips.wait_s(0)
        idle_s = (self._heard_s or 0.0) + max(self._idle_s, wait_s)
        return idle_s if self._gap_s is None else min(idle_s, self._gap_s + wait_s)

    def new_acks(self) -> tuple[TickRange, ...] | None:
        if not self.has_new_acks:
            return None
        self.has_new_acks = False
        return self.acknowledged.ranges()

    def reconnected(self) -> None:
        self._asked, self._in_vain = None, 0
        self._behind_until = max(self._behind_until, self.horizon + 1)
        self.has_new_acks = True
