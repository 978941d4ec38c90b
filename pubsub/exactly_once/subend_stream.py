"""A subend for a subscriber: a snapshot and then numbered messages, and the acknowledgement of batches. No I/O.

Invariants:

- The messages of each partition begin with the frontiers at which the subscription continues. Then each message comes
  once.
- A move of the frontier is acknowledged once everything before it in its partition is. So a subscription continues at
  the frontiers of its first unacknowledged batch, and every later move comes again.
"""

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.messages import Begun, KnowledgeMessage, Ranges, Upstream
from tidewheel.pubsub.exactly_once.subend import ROOM_BYTES, Delivered, Order, Subend
from tidewheel.pubsub.messages.encoded_message import decode, size_of
from tidewheel.pubsub.messages.wire import DataMessage, InitialFrontierSnapshot, Numbered, PartitionEnded
from tidewheel.pubsub.subscribers.topic_reader import Fetched


class SubendStream:
    """The messages of one reader.

    Args:
        reader: its id.
        begun: the place where the subscription begins or continues, of each partition.
        order: the order of messages of different partitions.
        room_bytes: the largest size of the waiting messages of each partition.

    Attributes:
        is_total: whether messages come in the order of their ticks, which needs the silence of each partition.
    """

    def __init__(
        self, reader: str, begun: Sequence[Begun], order: Order = "publisher", room_bytes: int = ROOM_BYTES
    ) -> None:
        self._subend = Subend(reader, dict(enumerate(begun)), size_of, order=order, room_bytes=room_bytes)
        self._partitions = [_Partition(self._subend, number, one.frontiers) for number, one in enumerate(begun)]
        self._is_new = True
        self.is_total = order == "total"

    def receive(self, message: KnowledgeMessage, now_s: float) -> None:
        """Receive a message from upstream.

        Raises:
            DeliveryError: upstream has forgotten messages that the reader lacks; `take` still returns all before them.
            ProtocolError: there is no such partition.
        """
        if not 0 <= message.pubend < len(self._partitions):
            raise ProtocolError(f"there is no pubend {message.pubend} of {len(self._partitions)}")
        self._subend.receive(message, now_s)

    def take(self) -> list[Fetched]:
        """Return the messages to deliver now, in order.

        Raises:
            ProtocolError: this process cannot read a message.
        """
        found: list[Fetched] = []
        if self._is_new:
            self._is_new = False
            found += (Fetched(number, one.begin()) for number, one in enumerate(self._partitions))
        for number, delivered in groupby(self._subend.take(), attrgetter("pubend")):
            numbered = map(self._partitions[number].deliver, delivered)
            found.append(Fetched(number, [one for one in numbered if one is not None]))
        return [fetched for fetched in found if fetched.messages]

    def acknowledge(self, partition: int, tick: int) -> None:
        """Record that the consumer has acknowledged a batch. Idempotent."""
        self._partitions[partition].acknowledge(tick)

    def is_done(self, partition: int) -> bool:
        """Tell whether all delivered messages of a partition are acknowledged."""
        return self._partitions[partition].is_done

    def ask(self, now_s: float) -> list[Upstream]:
        """Return the questions to upstream that are due now."""
        return self._subend.ask(now_s)

    def acks(self) -> list[Upstream]:
        """Return the acknowledgements for upstream."""
        return self._subend.acks()

    def ask_at_s(self) -> float:
        """Return the time to call `ask` again if no message comes before."""
        return self._subend.ask_at_s()

    def position(self, partition: int) -> int:
        """Return the first unacknowledged tick of a partition."""
        return self._subend.position(partition)

    def acknowledged(self, partition: int) -> Ranges:
        """Return all acknowledged ticks of a partition."""
        return self._subend.acknowledged(partition)

    def reconnected(self) -> None:
        """Record a new parent, which does not know the earlier questions and acknowledgements."""
        self._subend.reconnected()


class _Partition:
    """The messages of one partition that are delivered, but not acknowledged together with all before them."""

    def __init__(self, subend: Subend, number: int, frontiers: InitialFrontierSnapshot) -> None:
        self._subend = subend
        self._number = number
        self._frontiers = frontiers
        self._last = subend.horizon(number) - 1
        self._open: deque[int] = deque()
        self._batches: set[int] = set()
        self._has_ended = not frontiers.lower

    @property
    def is_done(self) -> bool:
        """Whether all delivered messages are acknowledged."""
        return not self._open

    def begin(self) -> list[Numbered]:
        """Return the first messages: the snapshot, and the end of a partition that has ended and is acknowledged."""
        snapshot = Numbered(self._last, self._frontiers)
        return [snapshot, Numbered(self._last + 1, PartitionEnded())] if self._has_ended else [snapshot]

    def deliver(self, delivered: Delivered) -> Numbered | None:
        event, tick = decode(delivered.message), delivered.tick
        self._open.append(tick)
        if isinstance(event, DataMessage):
            self._batches.add(tick)
        skipped, self._last = tick - self._last - 1, tick
        self._settle()
        return None if self._has_ended else Numbered(tick, event, skipped)

    def acknowledge(self, tick: int) -> None:
        if tick in self._batches:
            self._batches.remove(tick)
            self._subend.acknowledge(self._number, tick)
            self._settle()

    def _settle(self) -> None:
        """Acknowledge moves of the frontier that have no unacknowledged batch before them."""
        while self._open and self._open[0] not in self._batches:
            self._subend.acknowledge(self._number, self._open.popleft())
