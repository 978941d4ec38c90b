"""One operator's knowledge of substreams on one worker, for a snapshot.

It has no counts. A restored job counts tokens and messages anew, and also which workers have closed a substream. News
in flight to worker 0 is not needed; news from worker 0 is added here.
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeAlias

from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.messages.unread import Unread

Place: TypeAlias = tuple[str, int]
"""An input: (name of the operator, number of the input)."""


class ClosedKey(NamedTuple):
    """A closed key that a gate remembers, with its time and state; see `SubstreamGate`."""

    key: Key
    time: Time
    is_over: bool
    is_past: bool


@dataclass(frozen=True, slots=True)
class EndOfPiece:
    """The end of a substream in the queue of an input with a firm bound, after all records of the substream."""

    key: Key
    size: ClassVar[int] = 0


@dataclass(slots=True)
class GatePart:
    """A gate's knowledge of its declaration.

    Attributes:
        open: keys that are not closed, or closed only by the end of the stream.
        closed: ended keys, in order.
        over: keys that are over, from news of worker 0 in flight.
    """

    name: str
    number: int
    open: list[Key]
    closed: list[ClosedKey]
    waiting: list[Key]
    reopened: list[Key]
    over: list[Key] = field(default_factory=list)


@dataclass(slots=True)
class FirmPart:
    """The mailbox of an input with a firm bound.

    Attributes:
        held: records that wait for the end of their substream, or for its turn.
        between: records of no substream, which wait until a turn ends.
        turns: on a cycle, the substreams that get turns, in order.
        closed: further substreams for ``turns``, from news of worker 0 in flight.
    """

    queue: list[Unread | EndOfPiece]
    held: list[Unread]
    between: list[Unread]
    turns: list[Key] = field(default_factory=list)
    closed: list[Key] = field(default_factory=list)
    ends: list[Key] = field(default_factory=list)


@dataclass(slots=True)
class ViewPart:
    """Worker 0's reports on the substreams of a declaration.

    Attributes:
        closed: the keys that all workers have closed, until they are over, each with the inputs that have received its
            end.
        queues: for each ordered input, the keys whose ends are next, in order.
    """

    closed: dict[Key, list[Place]]
    queues: dict[Place, list[Key]]


@dataclass(slots=True)
class SubstreamPart:
    gate: GatePart | None = None
    view: ViewPart | None = None
    ends: dict[int, list[Key]] = field(default_factory=dict)
    firm: dict[int, FirmPart] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return self.gate is None and not self.ends and not self.firm
