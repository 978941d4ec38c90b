"""The messages of one partition at one subscriber, checked by a table of its states."""

from enum import Enum

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import PublisherLost
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    EpochsDropped,
    Failed,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Numbered,
    PartitionEnded,
    Rejected,
    WentBack,
)


class PartitionState(Enum):
    """The state of one partition at a subscriber."""

    AWAITING_SNAPSHOT = "awaiting its snapshot"
    LIVE = "live"
    ENDED = "ended"


TRANSITIONS: dict[tuple[PartitionState, type[Message]], PartitionState] = {
    (PartitionState.AWAITING_SNAPSHOT, InitialFrontierSnapshot): PartitionState.LIVE,
    (PartitionState.LIVE, DataMessage): PartitionState.LIVE,
    (PartitionState.LIVE, LowerFrontierUpdate): PartitionState.LIVE,
    (PartitionState.LIVE, EpochsDropped): PartitionState.LIVE,
    (PartitionState.LIVE, WentBack): PartitionState.LIVE,
    (PartitionState.LIVE, InitialFrontierSnapshot): PartitionState.LIVE,
    (PartitionState.LIVE, PartitionEnded): PartitionState.ENDED,
    (PartitionState.AWAITING_SNAPSHOT, Failed): PartitionState.ENDED,
    (PartitionState.AWAITING_SNAPSHOT, Rejected): PartitionState.ENDED,
    (PartitionState.LIVE, Failed): PartitionState.ENDED,
    (PartitionState.LIVE, Rejected): PartitionState.ENDED,
}
"""The next state, by the state of a partition and the type of a message. Any other message raises `ProtocolError`."""


class PartitionStream:
    """The messages of one partition at one subscriber, checked by the table of states.

    A snapshot in a live partition is the first message of a publisher that replaces a dead one; `accept` returns it as
    a return of the job.

    >>> stream = PartitionStream()
    >>> stream.accept(Numbered(7, InitialFrontierSnapshot([0], []))).lower
    [0]
    >>> stream.accept(Numbered(7, InitialFrontierSnapshot([0], []))) is None
    True
    >>> stream.accept(Numbered(20, InitialFrontierSnapshot([0], [], generation=1, standing=7))).number
    7
    """

    def __init__(self, topic: str = "", partition: int = 0) -> None:
        self._topic = topic
        self._partition = partition
        self._received: int | None = None
        self.state = PartitionState.AWAITING_SNAPSHOT

    def accept(self, numbered: Numbered) -> Message | None:
        """Check one message and return it, or None if it was received before.

        Raises:
            ProtocolError: messages before this one are missing, or the partition's state does not allow it.
            PublisherLost: messages of a dead publisher are missing, and will not be sent again.
        """
        message, sequence, received = numbered.message, numbered.sequence, self._received
        # A publisher that does not know this subscriber, such as a replacement of another publisher, has other numbers.
        is_last_word = isinstance(message, Failed | Rejected) and self.state is not PartitionState.ENDED
        if received is not None and sequence <= received and not is_last_word:
            return None
        following = TRANSITIONS.get((self.state, type(message)))
        if following is None:
            raise ProtocolError(f"a {type(message).__name__} came while the partition was {self.state.value}")
        if received is not None and isinstance(message, InitialFrontierSnapshot):
            if message.standing is None or message.standing > received:
                missing = "is dead, and its last messages with it, which this subscriber had not received"
                raise PublisherLost.at(self._topic, self._partition, missing)
            message = WentBack(message.generation, message.standing, message.lower)
        elif received is not None and sequence - numbered.skipped != received + 1 and not is_last_word:
            raise ProtocolError(f"message {received + 1} is missing: {sequence} came after {received}")
        self._received = sequence
        self.state = following
        return message
