"""The report of a worker on itself between two steps, for `Job.explain` and `Job.statistics`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidewheel.progress import Knowledge, Time
from tidewheel.runtime.explaining.statistics import (
    InputStatistics,
    WorkerStatistics,
)
from tidewheel.runtime.substreams.gate import OpenSubstreams

Counts: TypeAlias = Mapping[tuple[int, Time], int]
"""How many, by (location number, time)."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """One worker at one moment.

    Attributes:
        knowledge: what it knows of all pointstamps of the job, and what it has told of its own.
        tokens: the tokens that its operators hold.
        awaited: those of them that notificators hold, for times of which the operators asked to be told.
        queued: the messages that have arrived here and wait at an input.
        held: those that have arrived, and may not be received yet for what else is to come of their substream.
        scheduled: the numbers of the operators that run in its next step.
        expected: the numbers of the operators that wait for a thread to activate them, and for nothing else.
        statistics: what it has done; the operators' frontiers are left out.
        open_substreams: those of which it lets more in.
        fed, feeders: what other processes have sent to the inputs, and who they are, if it is this worker that knows.
    """

    worker: int
    knowledge: Knowledge
    tokens: Counts
    awaited: Counts
    queued: Counts
    scheduled: frozenset[int]
    statistics: WorkerStatistics
    open_substreams: tuple[OpenSubstreams, ...] = ()
    held: Counts = field(default_factory=dict)
    fed: Mapping[str, InputStatistics] = field(default_factory=dict)
    feeders: tuple[str, ...] = ()
    expected: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class BusyWorker:
    """A worker that did not answer in time, because it is inside an operator.

    ``operator`` is None if it is not known which; ``seconds`` is how long the call has taken so far.
    """

    worker: int
    operator: str | None = None
    time: Time | None = None
    seconds: float = 0.0
