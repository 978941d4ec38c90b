"""The statuses that feeders and workers send each other."""

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
        actor: the handle of its actor, if it is one.
    """

    number: int
    process: str
    actor: Any = None


@dataclass(frozen=True, slots=True)
class FeederStatus:
    """A feeder's state, sent to a worker, which replies with its own state.

    Each feeder, including the driver, sends its state to all workers when it begins, waits long, or leaves. All feeders
    except the driver also send it to worker 0 every second.

    Attributes:
        address: where the feeder listens; None if it fetches envelopes.
        given_up: why the feeder has dropped an open handle; None if it has not.
        is_leaving: whether all handles of the feeder are closed and this status is its last.
    """

    address: "SocketAddress | None"
    inputs: Mapping[str, InputStatistics] = field(default_factory=dict)
    given_up: str | None = None
    is_leaving: bool = False


class Phase(Enum):
    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker's state at one moment, for one feeder.

    Attributes:
        taken: how many of the feeder's bytes the worker's inputs have received.
        heard: how many of the feeder's envelopes have arrived without a gap.
        steps: the number of the worker's steps, if the feeder has asked and the worker has no work left.
        written: the worker's part of a snapshot, sent once to the driver.
        awaits: to continue, the worker needs a snapshot with a number above this; -1 if it needs none.
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
