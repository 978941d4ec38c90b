"""The messages of the protocol between a publisher and its subscribers, and nothing else.

The first message to a subscriber is an `InitialFrontierSnapshot`. After it come `DataMessage` and `LowerFrontierUpdate`
in the order in which the publisher took them, and `EpochsDropped` in place of data, then one of `PartitionEnded`,
`Failed` or `Disconnected`, and nothing after that.

Times are hashable picklable values of any kind, so messages travel pickled, as a list of `Numbered`. The payload of a
`DataMessage` stays encoded until the subscriber knows that its time passes.

Source: seed "Strymon publish-subscribe", section "Protocol Messages".
"""

from typing import Any, Literal, TypeAlias

import msgspec

from tidewheel.progress import Time
from tidewheel.transport.socket_frames import Payload

Encoding: TypeAlias = Literal["arrow", "pickle", "ends"]
"""How a payload is encoded: an Arrow IPC stream, a pickle of protocol 5, or such a pickle of keys that have ended."""


class InitialFrontierSnapshot(msgspec.Struct, frozen=True):
    """Both frontiers of a partition at the moment of subscription; sent once, first."""

    lower: list[Time]
    upper: list[Time]


class LowerFrontierUpdate(msgspec.Struct, frozen=True):
    """How the lower frontier changed: +1 for a time that entered it, -1 for one that left. Indivisible."""

    updates: list[tuple[Time, int]]


class DataMessage(msgspec.Struct, frozen=True):
    """One batch of ``records`` records at ``time``, encoded; or, without any, keys of substreams that have ended."""

    time: Time
    payload: Payload
    encoding: Encoding
    records: int

    def __reduce__(self) -> tuple[Any, ...]:
        payload = bytes(self.payload) if isinstance(self.payload, memoryview) else self.payload
        return type(self), (self.time, payload, self.encoding, self.records)


class EpochsDropped(msgspec.Struct, frozen=True):
    """Nothing of these epochs is sent to this one subscriber, which fell behind; told before they are complete."""

    times: list[Time]


class PartitionEnded(msgspec.Struct, frozen=True):
    """The lower frontier is empty: all data has been sent, and the partition is finished."""


class Failed(msgspec.Struct, frozen=True):
    """The topic ended for everybody before its time."""

    reason: str


class Disconnected(msgspec.Struct, frozen=True):
    """This one subscriber gets no more messages: it fell too far behind, or was away too long."""

    reason: str


Message: TypeAlias = (
    InitialFrontierSnapshot | LowerFrontierUpdate | DataMessage | EpochsDropped | PartitionEnded | Failed | Disconnected
)
"""What a subscriber receives."""

LastMessage: TypeAlias = PartitionEnded | Failed | Disconnected
"""After this a subscriber receives nothing more of a partition."""

Notice: TypeAlias = InitialFrontierSnapshot | EpochsDropped | Failed | Disconnected
"""What a publisher without a log tells a subscriber beside what is published."""

FeedEvent: TypeAlias = DataMessage | LowerFrontierUpdate
"""What a worker tells its publisher; the publisher passes these messages on as they are."""


class Numbered(msgspec.Struct, frozen=True):
    """A message with its number in the order of its publisher.

    A publisher numbers what it broadcasts 1, 2, 3, and so on from its start. A snapshot, which only one subscriber
    gets, has the number of the last broadcast that it includes (0 before any), so numbers rise by one at a subscriber
    wherever it joined, but for what it did not want, or was dropped because it fell behind: ``skipped`` says how many
    broadcasts before this one were left out. `Failed` and `Disconnected` may come after any gap.
    """

    sequence: int
    message: Message
    skipped: int = 0
