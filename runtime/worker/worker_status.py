"""The status of a worker, as it tells the driver and the other feeders."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidewheel.progress import Time


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
    """

    phase: Phase
    probes: Mapping[str, tuple[Time, ...]] = field(default_factory=dict)
    failure: Exception | None = None
    taken: int = 0
    heard: int = 0
    steps: int | None = None
