"""The messages between a publisher and its subscribers.

A subscriber first receives an `InitialFrontierSnapshot`, then `DataMessage` and `LowerFrontierUpdate` in the order of
their arrival, with `EpochsDropped` for dropped data and `WentBack` for the job's return to a snapshot, and last
`PartitionEnded`, `Failed` or `Rejected`.

Times are any hashable and picklable values; `encoded_message` encodes them. The payload of a `DataMessage` stays
encoded until its time passes the subscriber's filter.

Source: seed "Strymon publish-subscribe", section "Protocol Messages".
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from tidewheel.progress import Time
from tidewheel.transport.frames import Payload

Encoding: TypeAlias = Literal["arrow", "pickle", "ends"]
"""The encoding of a payload: an Arrow IPC stream, a pickle of protocol 5, or such a pickle of the keys of ends."""


class Generation(NamedTuple):
    """The messages of a job's workers from its beginning, or a return to a snapshot, to the next return.

    Attributes:
        number: the number of returns and restarts with the same log.
        complete: the frontier of the whole topic's logs when it began; empty without a log.
    """

    number: int = 0
    complete: tuple[Time, ...] = ()


FIRST: Final = Generation()


@dataclass(frozen=True, slots=True)
class WorkerPosition:
    """Where a worker begins to send: its first message to its publisher.

    Attributes:
        sent: the number of sent batches of each time that the frontier has not passed.
        number: the number of the publisher's last message before it; -1 for none.
    """

    lower: list[Time]
    sent: dict[Time, int]
    events: int = 0
    generation: Generation = FIRST
    number: int = -1
    history: "History | None" = None


class InitialFrontierSnapshot(msgspec.Struct, frozen=True):
    """Both frontiers of a partition at the subscription: the first message, sent once.

    ``generation`` is the number of the job's returns. Epochs not after ``passed`` may have earlier parts, as the worker
    had passed them before a return. A new publisher without a log in place of a dead one says in ``standing`` the
    number of the last valid message; for the dead one's subscribers this is a `WentBack`. ``history`` has all changes
    so far of a topic with history.
    """

    lower: list[Time]
    upper: list[Time]
    generation: int = 0
    passed: tuple[Time, ...] = ()
    standing: int | None = None
    history: "History | None" = None


class LowerFrontierUpdate(msgspec.Struct, frozen=True, eq=False):
    """An indivisible change of the lower frontier: +1 for a time that entered it, -1 for a time that left it.

    A decoded one keeps its ``head`` for passing on.
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

    A decoded one keeps its ``head`` for passing on.
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
    """All changes of one partition until now, for a late subscriber.

    ``as_of`` is the last complete epoch with changes; empty for none. Each message has its number; those up to
    ``as_of``, often one sum, have -1, as they never become void.
    """

    as_of: tuple[Time, ...]
    messages: tuple[tuple[int, DataMessage], ...]


class EpochsDropped(msgspec.Struct, frozen=True):
    """The epochs left out for this slow subscriber, sent before they are complete."""

    times: list[Time]


class WentBack(msgspec.Struct, frozen=True):
    """The job has returned to a snapshot, and the lower frontier to ``lower``.

    Messages after ``number`` are void; later ones have a new ``generation``. A topic with a log says in ``standing``
    how many batches of each epoch are valid; epochs before ``lower`` are then complete, without void batches.
    ``complete`` is the generation's. In a partial order ``passed`` is the worker's frontier, where not before
    ``lower``.
    """

    generation: int
    number: int
    lower: list[Time]
    standing: dict[Time, int] | None = None
    complete: tuple[Time, ...] = ()
    passed: tuple[Time, ...] = ()


class PartitionEnded(msgspec.Struct, frozen=True):
    """The end of the partition: the lower frontier is empty, and all data has been sent."""


class Failed(msgspec.Struct, frozen=True):
    """The topic failed for all subscribers, or was stopped ``on_purpose``; the partition has ended."""

    reason: str
    on_purpose: bool = False


class Rejected(msgspec.Struct, frozen=True, array_like=True, tag="R"):
    """The rejection of a child, which fell too far behind or was away too long, or whose condition failed.

    It is the child's last message, and has no number.
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
"""A message of a publisher without a log about its subscriber, beside the published messages."""

FeedEvent: TypeAlias = DataMessage | LowerFrontierUpdate
"""A message of a worker to its publisher, which passes it on unchanged."""


class Numbered(msgspec.Struct, frozen=True):
    """A message with its number at its publisher, as a subscriber receives it.

    A publisher numbers its broadcasts from 1; a snapshot has the number of its last included broadcast, or 0. So
    numbers rise by one, wherever a subscriber joined. ``skipped`` is how many broadcasts the subscriber's condition or
    policy left out right before; `Failed` and `Rejected` may follow any gap.
    """

    sequence: int
    message: Message
    skipped: int = 0
