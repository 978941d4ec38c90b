"""The part of a snapshot that is about substreams: what one operator on one worker has to know of them.

It has no counts. What is counted of a substream in a job that goes on is its tokens and its messages, and which workers
have closed it. What worker 0 was told on the way is not needed; what it has told and has not arrived is added here.
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeAlias

from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.messages.unread import Unread

Place: TypeAlias = tuple[str, int]
"""An input: (name of the operator, number of the input)."""


class ClosedKey(NamedTuple):
    """A key that a gate has closed and remembers: at which time, and what it knows of it; see `SubstreamGate`."""

    key: Key
    time: Time
    is_over: bool
    is_past: bool


@dataclass(frozen=True, slots=True)
class EndOfPiece:
    """The end of a substream in the queue of an input with a firm bound: the input has received all of it."""

    key: Key
    size: ClassVar[int] = 0


@dataclass(slots=True)
class GatePart:
    """What the gate of a declaration knows.

    Attributes:
        name: of the declaration, and ``number``, which is in labels.
        open: the keys that were let in and have not ended, or only have by the end of the stream.
        closed: those that have ended, in that order.
        waiting: those of which something waits to be let in, and ``reopened``, of which it may be now.
        over: those of which this worker is told next that they are over.
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
    """What the mailbox of an input with a firm bound has.

    Attributes:
        queue: what the operator receives next.
        held: what waits for its substream to end, or for its turn.
        between: what is of no substream, and waits for the end of a turn.
        turns: the substreams that have their turn, in order; on a cycle.
        closed: those of which it is told next that they come after these.
        ends: those of which it is told next that they have ended.
    """

    queue: list[Unread | EndOfPiece]
    held: list[Unread]
    between: list[Unread]
    turns: list[Key] = field(default_factory=list)
    closed: list[Key] = field(default_factory=list)
    ends: list[Key] = field(default_factory=list)


@dataclass(slots=True)
class ViewPart:
    """What worker 0 has told all workers of the substreams of a declaration.

    Attributes:
        closed: those that all workers have closed, and that are not over; with the inputs where their ends were told.
        queues: by input where ends come in the order of closing, those that are to end there next.
    """

    closed: dict[Key, list[Place]]
    queues: dict[Place, list[Key]]


@dataclass(slots=True)
class SubstreamPart:
    """What one operator on one worker knows of substreams.

    Attributes:
        gate: what its gate knows, if it declares substreams.
        view: what worker 0 has told of these.
        ends: by number of an input, the ends at which the operator has not looked.
        firm: what its inputs with a firm bound have, by number.
    """

    gate: GatePart | None = None
    view: ViewPart | None = None
    ends: dict[int, list[Key]] = field(default_factory=dict)
    firm: dict[int, FirmPart] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the operator knows nothing of substreams."""
        return self.gate is None and not self.ends and not self.firm
