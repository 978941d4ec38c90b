"""What feeders and workers tell each other of their state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from tidewheel.progress import Time
from tidewheel.runtime.messages.questions import Answer
from tidewheel.runtime.messages.statistics import InputStatistics
from tidewheel.runtime.messages.written_part import WrittenPart

if TYPE_CHECKING:
    from tidewheel.transport.socket_address import SocketAddress


@dataclass(frozen=True, slots=True)
class FeederName:
    """Another process that feeds a dataflow.

    Attributes:
        number: by which envelopes name it; below that of the driver.
        process: who it is, in words.
        actor: the handle of its actor, None if it is none.
    """

    number: int
    process: str
    actor: Any = None


@dataclass(frozen=True, slots=True)
class FeederStatus:
    """The state of a feeder, as it tells a worker, which answers with its own.

    Each feeder, the driver included, tells all workers when it begins, when it has to wait long, and when it leaves.
    The others tell worker 0 every second.

    Attributes:
        address: where it listens; None if it fetches what is sent to it.
        inputs: what it has sent so far, by the input's name.
        given_up: why it has given up a handle that it had not closed, None if it has not.
        is_leaving: whether all its handles are closed, and nothing comes after this.
    """

    address: "SocketAddress | None"
    inputs: Mapping[str, InputStatistics] = field(default_factory=dict)
    given_up: str | None = None
    is_leaving: bool = False


class Phase(Enum):
    """Where a worker is in its life."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker's state at one moment, as it tells one feeder.

    Attributes:
        phase: where it is in its life.
        probes: the elements of each probe's frontier.
        failure: the error that ended it.
        taken: how many bytes of what the feeder has sent it, its inputs have taken.
        heard: how many envelopes of the feeder have come, without a gap.
        steps: how many steps it has taken, if nothing is left to do; None if something is, or the feeder has not asked.
        written: its part of a snapshot, as it tells the driver once.
        answer: its answer to a question of the driver.
        awaits: a snapshot behind this one is needed before anything else can happen; -1 for none.
    """

    phase: Phase
    probes: Mapping[str, tuple[Time, ...]] = field(default_factory=dict)
    failure: Exception | None = None
    taken: int = 0
    heard: int = 0
    steps: int | None = None
    written: WrittenPart | None = None
    answer: Answer | None = None
    awaits: int = -1
