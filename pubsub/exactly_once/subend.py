"""The subend, where knowledge is consumed: it delivers messages in order, without gaps, each once. No I/O.

Invariants:

- The subend delivers messages in the order of their ticks, up to the doubt horizon. Before this horizon, all ticks of
  the pubend (in total order, of all pubends) are known.
- It acknowledges a tick once the tick is final, or the reader has acknowledged its message.
- It forgets messages for which it has no room, the latest first, and asks for them again later. So its memory is
  bounded.
- With a message it also acknowledges the silence before it. So if messages are acknowledged in order, the acknowledged
  ticks form one range.

A gap may only mean that messages are out of order, so the subend waits before it asks. It asks at once if upstream
sends the ticks only on request, and after a longer time if no messages arrive at all. In total order, it asks a pubend
for silence if a message of another pubend waits for it. So pubends with different clocks do not delay messages.

Source: seed "Gryphon exactly-once", section 2.3.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Literal, NamedTuple, TypeAlias

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.knowledge import KnowledgeStream
from tidewheel.pubsub.exactly_once.round_trips import RoundTrips
from tidewheel.pubsub.messages.delivery_messages import Ack, Begun, KnowledgeMessage, Nack, Ranges, Upstream
from tidewheel.pubsub.messages.tick_set import FOREVER, TickSet

Order: TypeAlias = Literal["publisher", "total"]

ROOM_BYTES = 8 * 1024 * 1024
IDLE_S = 1.0
PATIENT_IDLE_S = 3.0
"""The seconds without a message after which a subend asks for lost messages if it does not await silence."""
SILENCE_S = 0.25
"""The seconds after which a subend asks for awaited silence. A pubend with the same clock sends it sooner."""
MOST_RANGES = 1000
"""The largest number of separate ranges of known ticks, and of acknowledged ticks."""


class Delivered(NamedTuple):
    """A message for the reader."""

    pubend: int
    tick: int
    message: Any


class Subend:
    """One subscription.

    Args:
        order: the order of messages of different pubends: any, or the order of ticks.
        room_bytes: how many bytes of messages may wait for each pubend; a single message may be larger.
        idle_s: the seconds without a message after which it asks.
        may_consolidate: whether relays may acknowledge for it together with other readers.
    """

    def __init__(
        self,
        name: str,
        starts: Mapping[int, Begun],
        size_of: Callable[[Any], int],
        *,
        order: Order = "publisher",
        room_bytes: int = ROOM_BYTES,
        idle_s: float = IDLE_S,
        may_consolidate: bool = False,
    ) -> None:
        self._name = name
        self._may_consolidate = may_consolidate
        self.is_total = order == "total"
        self._incoming = {
            pubend: _Incoming(pubend, start, size_of, room_bytes, idle_s) for pubend, start in sorted(starts.items())
        }

    def receive(self, message: KnowledgeMessage, now_s: float) -> None:
        """Receive a message from upstream.

        Raises:
            DeliveryError: upstream has forgotten messages that the subend has not received; `take` still returns
                earlier messages.
            ProtocolError: there is no such pubend.
        """
        incoming = self._incoming.get(message.pubend)
        if incoming is None:
            raise ProtocolError(f"there is no pubend {message.pubend} of {len(self._incoming)}")
        # If the subend has forgotten acknowledged ticks, the horizon is before them.
        if message.lost_end > incoming.horizon and message.lost_end > incoming.acknowledged.prefix_end:
            raise DeliveryError(
                f"subscription {self._name!r} may have lost messages: it has had all of pubend {message.pubend} before "
                f"tick {incoming.horizon}, and messages before tick {message.lost_end} are no longer kept. Keep "
                "messages for longer, or subscribe by another name",
                partition=message.pubend,
            )
        incoming.learn(message, now_s)
        if self.is_total and message.data:
            for one in self._incoming.values():
                one.want(message.data[-1][0] + 1, now_s)

    def take(self) -> list[Delivered]:
        if not self.is_total:
            return [message for incoming in self._incoming.values() for message in incoming.take(incoming.horizon)]
        horizon = min(incoming.horizon for incoming in self._incoming.values())
        together = [message for incoming in self._incoming.values() for message in incoming.take(horizon)]
        together.sort(key=lambda message: message.tick)
        return together

    def acknowledge(self, pubend: int, tick: int) -> None:
        self._incoming[pubend].acknowledge(tick)

    def ask(self, now_s: float) -> list[Upstream]:
        return [nack for incoming in self._incoming.values() for nack in incoming.ask(now_s)]

    def ask_at_s(self) -> float:
        return min(incoming.ask_at_s for incoming in self._incoming.values())

    @property
    def has_acks(self) -> bool:
        return any(incoming.has_new_acks for incoming in self._incoming.values())

    def acks(self) -> list[Upstream]:
        """Return newly acknowledged ticks by pubend, at most the first `MOST_RANGES` ranges of each."""
        found: list[Upstream] = []
        everywhere: dict[str, tuple[Ranges, ...]] = {}
        for pubend, incoming in self._incoming.items():
            if not incoming.has_new_acks:
                continue
            incoming.has_new_acks = False
            if len(self._incoming) > 1 and not (everywhere or self._may_consolidate):
                everywhere[self._name] = tuple(map(_Incoming.acks, self._incoming.values()))
            found.append(Ack(pubend, {self._name: incoming.acks()}, everywhere, self._may_consolidate))
        return found

    def acknowledged(self, pubend: int) -> TickSet:
        """Return all acknowledged ticks of a pubend; the caller must not change the set."""
        return self._incoming[pubend].acknowledged

    def reconnected(self) -> None:
        """Record that the connection upstream is new, so that earlier questions and acknowledgements may be lost."""
        for incoming in self._incoming.values():
            incoming.reconnected()


class _Incoming:
    """The part of a subend that serves one pubend."""

    def __init__(
        self, pubend: int, start: Begun, size_of: Callable[[Any], int], room_bytes: int, idle_s: float
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
        self._position = self.horizon = self.stream.known.next_missing(0)
        # Each delivered but unacknowledged message, with the first tick of the silence before it.
        self._delivered: dict[int, int] = {}
        self._silent_from = self._position
        self._is_behind = self._position < start.told_end
        self._is_full = False
        self._asked: int | None = None
        self._is_timed = False
        self._asked_s = 0.0
        self._in_vain = 0
        self._gap_s: float | None = None
        self._gap_end = self._wanted_end = 0
        self._heard_s: float | None = None
        self.has_new_acks = False

    def learn(self, message: KnowledgeMessage, now_s: float) -> None:
        stream, known, horizon = self.stream, self.stream.known, self.horizon
        known_end = known.end
        for first, end in message.final:
            stream.accumulate_final(first, end)
        for tick, payload in message.data:
            if tick in self.acknowledged:  # these ticks are final, though the subend may have forgotten that
                stream.accumulate_final(tick, tick + 1)
            else:
                stream.accumulate_data(tick, payload, self._size_of(payload))
        self.horizon = known.next_missing(horizon)
        if self.horizon > horizon or known.end > known_end:
            self._heard_s = now_s
        # A message about later ticks only is not an answer; otherwise the subend would ask forever.
        if self._asked is not None and self.horizon > self._asked:
            if self._is_timed and not self._in_vain:
                self._trips.learn(now_s - self._asked_s)
            self._asked, self._in_vain, self._gap_s = None, 0, None
        # A late or repeated answer lacks only ticks that the subend has asked for since.
        if message.more and not 0 < message.end <= horizon:
            self._is_behind = True
        if stream.data.bytes > self._room_bytes and len(stream.data) > 1:
            self._make_room()
        if len(known) > MOST_RANGES:
            stream.forget(known.ranges()[MOST_RANGES // 2][0])
            self._look_again()
        self._note_gap(now_s)

    def want(self, end: int, now_s: float) -> None:
        self._wanted_end = max(self._wanted_end, end)
        self._note_gap(now_s)

    def _make_room(self) -> None:
        data = self.stream.data
        oldest = data.oldest
        least = 0 if oldest is None else self._size_of(data[oldest])
        self.stream.forget_latest_data(max(self._room_bytes, least))
        self._look_again()
        # The answer has no room beside the messages that wait for the reader. Asking again before the reader has read
        # is useless.
        self._is_full = oldest is not None and oldest < self.horizon

    def _look_again(self) -> None:
        self.horizon = self.stream.known.next_missing(self._position)
        self._asked = None if self._asked is None else min(self._asked, self.horizon)
        self._is_behind = True

    def take(self, horizon: int) -> list[Delivered]:
        data = self.stream.take(self._position, horizon) if horizon > self._position else []
        oldest = self.stream.data.oldest
        # Silence does not wait for other pubends: a message that was filtered out is also acknowledged at once.
        horizon = max(horizon, self.horizon if oldest is None else min(self.horizon, oldest))
        if horizon <= self._position:
            return []
        if data:
            self._is_full = False
        for tick, _ in data:
            self._delivered[tick] = self._silent_from
            self._silent_from = tick + 1
        self._position = horizon
        self.horizon = self.stream.known.next_missing(horizon)
        self._acknowledge_silence()
        return [Delivered(self._pubend, tick, message) for tick, message in data]

    # ------------------------------------------------------------------ acknowledging

    def acknowledge(self, tick: int) -> None:
        silent_from = self._delivered.pop(tick, None)
        if silent_from is not None:
            self.acknowledged.add(silent_from, tick + 1)
            self.has_new_acks = True
            self._acknowledge_silence()

    def _acknowledge_silence(self) -> None:
        """If the reader has acknowledged all messages, acknowledge the silence after the last message."""
        if not self._delivered and self._silent_from < self._position:
            self.acknowledged.add(self._silent_from, self._position)
            self._silent_from = self._position
            self.has_new_acks = True

    def acks(self) -> Ranges:
        return self.acknowledged.first_ranges(MOST_RANGES)

    # ------------------------------------------------------------------ asking

    def ask(self, now_s: float) -> list[Nack]:
        if self._heard_s is None:
            self._heard_s = now_s
        is_calm = self._asked is None and self._gap_s is None and not self._is_behind
        if is_calm and now_s < self._heard_s + self._idle_s:  # the usual case
            return []
        if self._is_blocked and self.stream.forget_latest_data(self._room_bytes // 2, after=self.horizon):
            self._is_behind = True
        self._note_gap(now_s)
        if now_s < self.ask_at_s:
            return []
        if self._asked is not None:
            self._in_vain += 1
        end = max(self.horizon, self._end)
        ranges = self.stream.known.missing(self.horizon, end)
        self._asked, self._asked_s, self._is_timed = self.horizon, now_s, bool(ranges)
        if self._is_behind or not ranges:
            ranges += ((end, FOREVER),)
        self._is_behind = False
        return [Nack(self._pubend, ranges, self._room_bytes - self.stream.data.bytes)]

    def _note_gap(self, now_s: float) -> None:
        if self.horizon >= min(self._gap_end, self._end):
            self._gap_s = None
        if self._gap_s is None and self.horizon < self._end:
            self._gap_s, self._gap_end = now_s, self._end

    @property
    def _end(self) -> int:
        return max(self.stream.known.end, self._wanted_end)

    @property
    def _has_room(self) -> bool:
        data = self.stream.data
        return not self._is_full and (data.bytes <= self._room_bytes // 2 or not data)

    @property
    def _is_blocked(self) -> bool:
        """True if messages behind a gap leave no room for the messages in the gap.

        Messages before a gap do not count, since they leave soon.
        """
        return not (self._is_full or self._has_room) and self.horizon < (self.stream.data.latest or 0)

    @property
    def ask_at_s(self) -> float:
        if not (self._has_room or self._is_blocked):
            return inf
        if self._asked is not None:
            return self._asked_s + self._trips.wait_s(self._in_vain)
        if self._is_behind:
            return 0.0
        wait_s = self._trips.wait_s(0)
        idle_s = (self._heard_s or 0.0) + max(self._idle_s, wait_s)
        if self._gap_s is None:
            return idle_s
        is_silence = self.horizon >= self.stream.known.end
        return min(idle_s, self._gap_s + (max(wait_s, SILENCE_S) if is_silence else wait_s))

    def reconnected(self) -> None:
        self._asked, self._in_vain = None, 0
        self._is_behind = True
        self.has_new_acks = True
