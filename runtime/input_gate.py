"""What keeps the driver's inputs from running ahead of the dataflow."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tidewheel.progress import Time


class Admission(Enum):
    """How waiting at the gate ended."""

    ROOM = "there is room"
    LET_IN = "there is none, but the dataflow has nothing left to do and may be waiting for more"
    TIMED_OUT = "there is none, and no time left to wait"


@dataclass(frozen=True, slots=True)
class InputGate:
    """The limits of a job, as its inputs see them; without any, everything has room.

    Attributes:
        epochs_ahead: how many times an input may be ahead of the job's probes.
        has_room: tells whether so many bytes may be sent to a worker now.
        is_past: tells whether a time is complete at every probe.
        wait: waits until a condition holds, for so many seconds at most; None waits as long as the job lives.
    """

    epochs_ahead: int = 1 << 62
    has_room: Callable[[int, int], bool] = lambda worker, size: True
    is_past: Callable[[Time], bool] = lambda time: True
    wait: Callable[[Callable[[], bool], float | None], Admission] = lambda condition, timeout: Admission.LET_IN
