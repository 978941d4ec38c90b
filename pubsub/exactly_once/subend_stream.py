"""A subend, for a subscriber: numbered messages behind a snapshot, and batches that it is done with. No I/O.

Invariants:

- What comes of each partition begins with the frontiers where the subscription goes on; then come messages, each once.
- A move of the frontier is acknowledged once all before it in its partition is. So the frontiers where a subscription
  goes on later are those at its first batch that is not acknowledged, and every move after that comes again.
"""

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.begun import Begun
from tidewheel.pubsub.exactly_once.messages import KnowledgeMessage, Ranges, Upstream
from tidewheel.pubsub.exactly_once.pubend import Start
from tidewheel.pubsub.exactly_once.subend import ROOM_BYTES, Delivered, Order, Subend
from tidewheel.pubsub.messages.encoded_message import decode, size_of
from tidewheel.pubsub.messages.wire import DataMessage, InitialFrontierSnapshot, Numbered, PartitionEnded
from tidewheel.pubsub.subscribers.topic_reader import Fetched


class SubendStream:
    """The messages of one reader.

    Args:
        reader: its id.
        begun: where the subscription begins, or goes on, at each partition.
        order: of messages of different partitions.
        room_bytes: how much of each partition may wait.

    Attributes:
        is_total: whether messages come in the order of their ticks, for which the silence of each partition is needed.
    """

    def __init__(
        self, reader: str, begun: Sequence[Begun], order: Order = "publisher", room_bytes: int = ROOM_BYTES
    ) -> None:
        starts = {number: Start(one.acknowledged, one.told_end) for number, one in enumerate(begun)}
        self._subend = Subend(reader, starts, size_of, order=order, room_bytes=room_bytes)
        self._partitions = [_Partition(self._subend, number, one.frontiers) for number, one in enumerate(begun)]
        self._is_new = True
        self.is_total = order == "total"

    def receive(self, message: KnowledgeMessage, now_s: float) -> None:
        """Take what comes from upstream.

        Raises:
            DeliveryError: messages that it has not had are gone; all before them can still be taken.
            ProtocolError: there is no such partition.
        """
        if not 0 <= message.pubend < len(self._partitions):
            raise ProtocolError(f"there is no pubend {message.pubend} of {len(self._partitions)}")
        self._subend.receive(message, now_s)

    def take(self) -> list[Fetched]:
        """Return what can be delivered now, in order.

        Raises:
            ProtocolError: a message cannot be read here.
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
        """Take note that the consumer is done with a batch; does nothing if it was before."""
        self._partitions[partition].acknowledge(tick)

    def is_done(self, partition: int) -> bool:
        """Tell whether all that was delivered of a partition is acknowledged."""
        return self._partitions[partition].is_done

    def ask(self, now_s: float) -> list[Upstream]:
        """Return what to ask upstream now."""
        return self._subend.ask(now_s)

    def acks(self) -> list[Upstream]:
        """Return what to tell upstream of what is acknowledged."""
        return self._subend.acks()

    def ask_at_s(self) -> float:
        """Return when to look what to ask again, if nothing comes before."""
        return self._subend.ask_at_s()

    def position(self, partition: int) -> int:
        """Return the first tick of a partition that is not acknowledged."""
        return self._subend.position(partition)

    def acknowledged(self, partition: int) -> Ranges:
        """Return all that is acknowledged of a partition."""
        return self._subend.acknowledged(partition)

    def reconnected(self) -> None:
        """Take note that there is another parent, which knows nothing of what was asked and acknowledged."""
        self._subend.reconnected()


class _Partition:
    """What is delivered of one partition, and not yet acknowledged with all before it."""

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
        """Whether all that was delivered is acknowledged."""
        return not self._open

    def begin(self) -> list[Numbered]:
        """Return what comes before everything else: of a partition that is over, and acknowledged, also its end."""
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
        """Acknowledge moves of the frontier that have no batch before them which is not."""
        while self._open and self._open[0] not in self._batches:
            self._subend.acknowledge(self._number, self._open.popleft())
