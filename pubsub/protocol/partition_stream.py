"""The messages of one partition, checked: none missing, none twice, each where the protocol allows it.

=================  =======================  =================
state              message                  next
=================  =======================  =================
AWAITING_SNAPSHOT  InitialFrontierSnapshot  LIVE
LIVE               DataMessage              LIVE
LIVE               LowerFrontierUpdate      LIVE
LIVE               EpochsDropped            LIVE
LIVE               PartitionEnded           ENDED
not ENDED          Failed, Disconnected     ENDED
=================  =======================  =================

Source: seed "Strymon publish-subscribe", section "Protocol Messages". The ends are added.
"""

from enum import Enum

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    Disconnected,
    EpochsDropped,
    Failed,
    InitialFrontierSnapshot,
    LowerFrontierUpdate,
    Message,
    Numbered,
    PartitionEnded,
)


class PartitionState(Enum):
    """Where a subscriber is with one partition."""

    AWAITING_SNAPSHOT = "awaiting its snapshot"
    LIVE = "live"
    ENDED = "ended"


TRANSITIONS: dict[tuple[PartitionState, type[Message]], PartitionState] = {
    (PartitionState.AWAITING_SNAPSHOT, InitialFrontierSnapshot): PartitionState.LIVE,
    (PartitionState.LIVE, DataMessage): PartitionState.LIVE,
    (PartitionState.LIVE, LowerFrontierUpdate): PartitionState.LIVE,
    (PartitionState.LIVE, EpochsDropped): PartitionState.LIVE,
    (PartitionState.LIVE, PartitionEnded): PartitionState.ENDED,
    (PartitionState.AWAITING_SNAPSHOT, Failed): PartitionState.ENDED,
    (PartitionState.AWAITING_SNAPSHOT, Disconnected): PartitionState.ENDED,
    (PartitionState.LIVE, Failed): PartitionState.ENDED,
    (PartitionState.LIVE, Disconnected): PartitionState.ENDED,
}
"""The table above; what is not in it is a `ProtocolError`."""


class PartitionStream:
    """One partition's messages at one subscriber.

    >>> stream = PartitionStream()
    >>> stream.accept(Numbered(7, InitialFrontierSnapshot([0], [])))
    InitialFrontierSnapshot(lower=[0], upper=[])
    >>> stream.accept(Numbered(7, InitialFrontierSnapshot([0], []))) is None, stream.duplicates
    (True, 1)
    """

    def __init__(self) -> None:
        self._received: int | None = None
        self.state = PartitionState.AWAITING_SNAPSHOT
        self.duplicates = 0

    def accept(self, numbered: Numbered) -> Message | None:
        """Check one message and return it, or None if it was received before.

        Raises:
            ProtocolError: messages before this one are missing, or the partition's state does not allow it.
        """
        message, sequence = numbered.message, numbered.sequence
        # A publisher that knows nothing of this subscriber, such as a new one in place of another, has other numbers.
        is_last_word = isinstance(message, Failed | Disconnected) and self.state is not PartitionState.ENDED
        if self._received is not None and sequence <= self._received and not is_last_word:
            self.duplicates += 1
            return None
        following = TRANSITIONS.get((self.state, type(message)))
        if following is None:
            raise ProtocolError(f"a {type(message).__name__} came while the partition was {self.state.value}")
        if self._received is not None and sequence - numbered.skipped != self._received + 1 and not is_last_word:
            raise ProtocolError(f"message {self._received + 1} is missing: {sequence} came after {self._received}")
        self._received = sequence
        self.state = following
        return message
