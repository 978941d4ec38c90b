"""The messages of the protocol between a publisher and its subscribers, and nothing else.

The first message to a subscriber is an `InitialFrontierSnapshot`. `DataMessage` and `LowerFrontierUpdate` follow in the
order in which the publisher received them, with `EpochsDropped` in place of dropped data, and `WentBack` where the job
has gone back to a snapshot. The last message is `PartitionEnded`, `Failed` or `Rejected`.

Times are hashable and picklable values of any kind; `encoded_message` has how they travel. The payload of a
`DataMessage` stays encoded until the subscriber knows that its time passes its filter.

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
    """What the workers of a job publish from its beginning, or its return to a snapshot, to the next return.

    Attributes:
        number: how often the job has gone back to a snapshot, or has begun again with the same log.
        complete: the frontier that the logs of the whole topic had when it began; nothing without a log.
    """

    number: int = 0
    complete: tuple[Time, ...] = ()


FIRST: Final = Generation()


@dataclass(frozen=True, slots=True)
class WorkerPosition:
    """The position at which a worker begins to send: the first message to its publisher.

    Attributes:
        lower: its frontier.
        sent: the number of sent batches of each time that the frontier has not passed; its publisher has all of them.
        events: the number of events that it has sent before; its publisher has all of them.
        generation: the generation of what it sends.
        number: the number of the publisher's last message before it; -1 if there is none.
        history: all changes before it, if the topic is published with history.
    """

    lower: list[Time]
    sent: dict[Time, int]
    events: int = 0
    generation: Generation = FIRST
    number: int = -1
    history: "History | None" = None


class InitialFrontierSnapshot(msgspec.Struct, frozen=True):
    """Both frontiers of a partition at the moment of subscription: the first message, sent once.

    ``generation`` is how often the job had gone back to a snapshot. Epochs that are not after
    ``passed``, if there is any, may have a part before this, too: the worker had passed them before it went back.
    A publisher without a log that takes the place of one that has died says in ``standing`` the number of the last
    message that stands. For a subscriber of the dead one, this is a `WentBack` then. A topic that is published with
    history has all changes so far in ``history``.
    """

    lower: list[Time]
    upper: list[Time]
    generation: int = 0
    passed: tuple[Time, ...] = ()
    standing: int | None = None
    history: "History | None" = None


class LowerFrontierUpdate(msgspec.Struct, frozen=True, eq=False):
    """An indivisible change of the lower frontier: +1 for a time that entered it, -1 for a time that left it.

    One that was decoded has its ``head``, so that it is passed on as it came; that is no part of what it says.
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
    """One encoded batch of ``records`` records at ``time``, or the keys of ended substreams, without records.

    One that was decoded has its ``head``, so that it is passed on as it came; that is no part of what it says.
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
    """All changes of one partition until now, for one that comes late.

    ``as_of`` is the last complete epoch with changes; nothing without any. Each message has its number. Those with
    changes up to ``as_of``, often one sum, have the number -1 instead, as they never become void.
    """

    as_of: tuple[Time, ...]
    messages: tuple[tuple[int, DataMessage], ...]


class EpochsDropped(msgspec.Struct, frozen=True):
    """The epochs that the publisher leaves out for this slow subscriber, sent before they are complete."""

    times: list[Time]


class WentBack(msgspec.Struct, frozen=True):
    """The job has gone back to a snapshot, and the lower frontier to ``lower``.

    The messages with a greater number than ``number`` are void. What comes next is of a new ``generation``. A topic
    with a log says in ``standing`` how many batches of each epoch stand. Then epochs before ``lower`` are complete:
    nothing of them is void, or comes again. ``complete`` is that of the generation.
    In a partial order ``passed`` is the frontier of the worker, where that is not before ``lower``.
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
    """The topic failed for all subscribers, or has stopped where ``on_purpose``; no more comes of the partition."""

    reason: str
    on_purpose: bool = False


class Rejected(msgspec.Struct, frozen=True, array_like=True, tag="R"):
    """The rejection of a child, which receives nothing more: it fell too far behind, or its condition failed.

    It has no number, and is no part of what is published.

    Attributes:
        pubend: the number of the rejecting pubend.
        reason: the reason.
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
    """A message with its number in the order of its publisher, as a subscriber receives it.

    A publisher numbers its broadcasts 1, 2, 3 and so on from its start. A snapshot goes to one subscriber only, and has
    the number of the last broadcast that it includes, 0 before any. So the numbers that a subscriber receives rise by
    one wherever it joined. The publisher may leave out broadcasts that the subscriber's condition or policy excludes;
    ``skipped`` is their number directly before this message. `Failed` and `Rejected` may follow any gap.
    """

    sequence: int
    message: Message
    skipped: int = 0
