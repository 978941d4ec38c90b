"""The messages between a publisher and its subscribers.

A subscriber first receives an `InitialFrontierSnapshot`. Then it receives `DataMessage` and `LowerFrontierUpdate` in
the order of the worker, `EpochsDropped` in place of dropped data, and `WentBack` when the job returns to a snapshot.
The last message is `PartitionEnded`, `Failed` or `Rejected`.

Times are hashable and picklable values; `encoded_message` encodes them. The payload of a `DataMessage` stays encoded
until its time passes the subscriber's filter.

Source: seed "Strymon publish-subscribe", section "Protocol Messages".
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from tidewheel.progress import Time
from tidewheel.transport.frames import Payload

Encoding: TypeAlias = Literal["arrow", "pickle", "ends"]
"""The encoding of a payload: an Arrow IPC stream, a pickle of protocol 5, or (``"ends"``) such a pickle of keys."""


class Generation(NamedTuple):
    """A generation: all messages of a job between two returns to a snapshot, or from its start to the first return.

    Attributes:
        number: the number of earlier returns and restarts, with the same log.
        complete: the frontier of all logs of the topic when the generation began; empty without a log.
    """

    number: int = 0
    complete: tuple[Time, ...] = ()


FIRST: Final = Generation()


@dataclass(frozen=True, slots=True)
class WorkerPosition:
    """The position at which a worker begins to send; the worker's first message to its publisher.

    Attributes:
        sent: for each time that the frontier has not passed, the number of batches sent.
        number: the number of the publisher's last earlier message; -1 if there is none.
    """

    lower: list[Time]
    sent: dict[Time, int]
    events: int = 0
    generation: Generation = FIRST
    number: int = -1
    history: "History | None" = None


class InitialFrontierSnapshot(msgspec.Struct, frozen=True):
    """Both frontiers of a partition when a subscription begins. This is the first message, sent once.

    ``generation`` is the number of the job's returns. Before a return, the worker had passed the epochs up to
    ``passed``, so it may have sent parts of them. If a new publisher without a log replaces a dead one, ``standing`` is
    the number of the last valid message; the dead publisher's subscribers take this message for a `WentBack`. For a
    topic with history, ``history`` has all changes so far.
    """

    lower: list[Time]
    upper: list[Time]
    generation: int = 0
    passed: tuple[Time, ...] = ()
    standing: int | None = None
    history: "History | None" = None


class LowerFrontierUpdate(msgspec.Struct, frozen=True, eq=False):
    """An indivisible change of the lower frontier: +1 for a time that enters it, -1 for a time that leaves it.

    A decoded message keeps its ``head``, to be passed on.
    """

    updates: list[tuple[Time, int]]
    head: bytes = b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerFrontierUpdate) and self.updates == other.updates

    def __ne__(self, other: object) -> bool:
        return not self == other  # the base class would compare identities

    def __hash__(self) -> int:
        return hash(tuple(self.updates))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.updates,)


class DataMessage(msgspec.Struct, frozen=True, eq=False):
    """One encoded batch of ``records`` records at ``time``, or keys of ended substreams.

    A decoded message keeps its ``head``, to be passed on.
    """

    time: Time
    payload: Payload
    encoding: Encoding
    records: int
    head: bytes = b""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DataMessage):
            return NotImplemented
        mine = self.time, self.encoding, self.records
        return mine == (other.time, other.encoding, other.records) and self.payload == other.payload

    def __ne__(self, other: object) -> bool:
        return not self == other  # the base class would compare identities

    def __hash__(self) -> int:
        return hash((self.time, self.encoding, self.records))

    def __reduce__(self) -> tuple[Any, ...]:
        payload = bytes(self.payload) if isinstance(self.payload, memoryview) else self.payload
        return type(self), (self.time, payload, self.encoding, self.records)


class History(msgspec.Struct, frozen=True):
    """All changes of one partition so far, for a new subscriber.

    ``as_of`` has the last complete epoch with changes; it is empty if there is none. Each message comes with its
    number. Messages of complete epochs, often one sum, have the number -1, since they never become void.
    """

    as_of: tuple[Time, ...]
    messages: tuple[tuple[int, DataMessage], ...]


class EpochsDropped(msgspec.Struct, frozen=True):
    """The epochs that were dropped for this slow subscriber; sent before they are complete."""

    times: list[Time]


class WentBack(msgspec.Struct, frozen=True):
    """The job has returned to a snapshot, and the lower frontier to ``lower``.

    Earlier messages with a number after ``number`` are void; later messages have a new ``generation``, which began with
    the topic's frontier ``complete``. For a topic with a log, ``standing`` has the number of valid batches of each
    epoch; epochs before ``lower`` are then complete and have no void batches. In a partial order, ``passed`` is the
    worker's frontier, unless it is before ``lower``.
    """

    generation: int
    number: int
    lower: list[Time]
    standing: dict[Time, int] | None = None
    complete: tuple[Time, ...] = ()
    passed: tuple[Time, ...] = ()


class PartitionEnded(msgspec.Struct, frozen=True):
    """The partition has ended: its lower frontier is empty, and all data has been sent."""


class Failed(msgspec.Struct, frozen=True):
    """The topic has failed for all subscribers, or was stopped ``on_purpose``; the partition has ended."""

    reason: str
    on_purpose: bool = False


class Rejected(msgspec.Struct, frozen=True, array_like=True, tag="R"):
    """The publisher disconnects a child, which fell too far behind, was away too long, or has a condition that failed.

    This is the child's last message, and has no number.
    """

    pubend: Annotated[int, msgspec.Meta(ge=0)]
    reason: str


Message: TypeAlias = (
    InitialFrontierSnapshot
    | LowerFrontierUpdate
    | DataMessage
    | EpochsDropped
    | WentBack
    | PartitionEnded
    | Failed
    | Rejected
)
"""A message to a subscriber."""

LastMessage: TypeAlias = PartitionEnded | Failed | Rejected
"""The last message of a partition to a subscriber."""

Notice: TypeAlias = InitialFrontierSnapshot | EpochsDropped | WentBack | Failed
"""A message to a subscriber of a publisher without a log, in addition to the published messages."""

FeedEvent: TypeAlias = DataMessage | LowerFrontierUpdate
"""A message of a worker to its publisher, which passes it on unchanged."""


class Numbered(msgspec.Struct, frozen=True):
    """A message with its number at its publisher, as a subscriber receives it.

    A publisher numbers its messages from 1; a snapshot has the number of the last message that it includes, or 0. So
    numbers rise by one, whenever a subscriber has joined. ``skipped`` is the number of messages right before this one
    that the subscriber's condition or policy has left out. `Failed` and `Rejected` may follow any gap.
    """

    sequence: int
    message: Message
    skipped: int = 0
