"""The status of a worker, as it tells the driver."""

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
    """A worker's state at one moment; ``version`` grows with every change of it.

    ``failure`` is the error that ended the worker. ``probes`` has the elements of each probe's frontier. ``taken`` has,
    for each feeder, how many of its bytes the worker's inputs have taken.
    """

    version: int
    phase: Phase
    probes: dict[str, tuple[Time, ...]] = field(default_factory=dict)
    taken: Mapping[int, int] = field(default_factory=dict)
    failure: Exception | None = None
