"""A subend for a subscriber: it delivers a snapshot and numbered messages, and acknowledges batches. No I/O.

Invariants:

- The messages of each partition begin with the frontiers at which the subscription continues; then each message comes
  once.
- A move of the frontier is acknowledged once everything before it in its partition is acknowledged. So a subscription
  continues at the frontiers of its first unacknowledged batch, and every later move comes again.
- A batch that a return of the job has made void counts as acknowledged. The return itself waits for the messages before
  it, and for the consumer, which may have kept void batches.
"""

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.pubsub.exactly_once.subend import IDLE_S, ROOM_BYTES, Delivered, Order, Subend
from tidewheel.pubsub.messages.delivery_messages import Begun
from tidewheel.pubsub.messages.encoded_message import decode, size_of
from tidewheel.pubsub.messages.wire import DataMessage, InitialFrontierSnapshot, Numbered, PartitionEnded, WentBack
from tidewheel.pubsub.protocol.fetched import Fetched


class SubendStream(Subend):
    """The messages of one reader, in the form for a subscriber."""

    def __init__(
        self,
        reader: str,
        domain: TimeDomain,
        begun: Sequence[Begun],
        order: Order = "publisher",
        room_bytes: int = ROOM_BYTES,
        *,
        idle_s: float = IDLE_S,
        may_consolidate: bool = False,
    ) -> None:
        starts = dict(enumerate(begun))
        super().__init__(
            reader,
            starts,
            size_of,
            order=order,
            room_bytes=room_bytes,
            idle_s=idle_s,
            may_consolidate=may_consolidate,
        )
        self._partitions = [
            _Partition(self._incoming[number].horizon - 1, one.frontiers) for number, one in enumerate(begun)
        ]
        self._domain = domain
        self._is_new = True

    def fetch(self) -> list[Fetched]:
        """Return the messages to deliver now, in order.

        Raises:
            ProtocolError: this process cannot read a message.
        """
        found: list[Fetched] = []
        if self._is_new:
            self._is_new = False
            found += (Fetched(number, one.begin()) for number, one in enumerate(self._partitions))
        for number, delivered in groupby(self.take(), attrgetter("pubend")):
            numbered = [one for one in map(self._partitions[number].deliver, delivered) if one is not None]
            found.append(Fetched(number, numbered))
            for one in numbered:
                if isinstance(one.message, WentBack):
                    self._void(number, one.message, one.sequence)
            self._settle(number)
        return [fetched for fetched in found if fetched.messages]

    def acknowledge(self, pubend: int, tick: int) -> None:
        batches = self._partitions[pubend].batches
        if tick in batches:
            if not isinstance(batches.pop(tick), WentBack):
                super().acknowledge(pubend, tick)
            self._settle(pubend)

    def _void(self, number: int, returned: WentBack, at: int) -> None:
        lower = Antichain(self._domain, returned.lower)
        for tick, time in list(self._partitions[number].batches.items()):
            if returned.number < tick < at and not isinstance(time, WentBack) and lower.less_equal(time):
                self.acknowledge(number, tick)

    def _settle(self, number: int) -> None:
        one = self._partitions[number]
        while one.open and one.open[0] not in one.batches:
            super().acknowledge(number, one.open.popleft())

    def is_done(self, partition: int) -> bool:
        return not self._partitions[partition].open


class _Partition:
    """The delivered messages of one partition, from the first unacknowledged one on.

    Attributes:
        open: the ticks of the unacknowledged messages, in order, and of some acknowledged messages after them.
        batches: for each tick, the time of an unacknowledged batch, or the message of a return.
    """

    def __init__(self, last: int, frontiers: InitialFrontierSnapshot) -> None:
        self._frontiers = frontiers
        self._last = last
        self.open: deque[int] = deque()
        self.batches: dict[int, Time] = {}
        self._has_ended = not frontiers.lower

    def begin(self) -> list[Numbered]:
        """Return the first messages: the snapshot and, if the end of the partition is acknowledged, the end."""
        snapshot = Numbered(self._last, self._frontiers)
        return [snapshot, Numbered(self._last + 1, PartitionEnded())] if self._has_ended else [snapshot]

    def deliver(self, delivered: Delivered) -> Numbered | None:
        event, tick = decode(delivered.message), delivered.tick
        self.open.append(tick)
        if isinstance(event, DataMessage | WentBack):
            self.batches[tick] = event.time if isinstance(event, DataMessage) else event
        skipped, self._last = tick - self._last - 1, tick
        return None if self._has_ended else Numbered(tick, event, skipped)
