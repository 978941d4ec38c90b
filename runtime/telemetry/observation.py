"""The facts of which a document is made: those of a job that stay, and those of one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidewheel.host.recent_lines import LogLine
from tidewheel.progress import CompiledGraph
from tidewheel.runtime.description.outline import Outline
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.inputs.feed import Feed
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What stays the same as long as a job runs.

    Attributes:
        about: what the document says of the job itself.
        plan, compiled: the dataflow as workers run it.
        outline: the dataflow as it was described, by whose numbers the document names operators and edges.
        bytes_in_flight: for how many bytes each worker may answer before sources wait.
    """

    about: Mapping[str, Any]
    plan: Plan
    compiled: CompiledGraph
    outline: Outline
    bytes_in_flight: int


@dataclass(frozen=True, slots=True)
class Observation:
    """A job at one moment.

    Attributes:
        at: when, in seconds since 1970.
        state: what it does: ``paused``, ``running``, ``going back``, ``complete``, ``failed`` or ``stopped``.
        reports: what workers said; one that is left out is as it was.
        feed: the driver's end of its inputs; None if it has none yet.
        error: why it has failed, None if it has not.
        notes: what may keep it from going on, in words.
        returns: how often it has gone back to a snapshot.
        topics: the statistics of each partition, by topic; a topic that is left out is as it was.
        lines: the last warnings and errors that the driver has logged; those of workers are in their reports.
        next_snapshot: the snapshot that comes next, in words; empty if the job keeps none.
        snapshots: the last snapshot and where it is; None if the job keeps none.
    """

    at: float
    state: str
    reports: Sequence[WorkerReport | BusyWorker] = ()
    feed: Feed | None = None
    error: str | None = None
    notes: tuple[str, ...] = ()
    returns: int = 0
    topics: Mapping[str, Sequence[Mapping[str, int]]] = field(default_factory=dict)
    next_snapshot: str = ""
    snapshots: Mapping[str, Any] | None = None
    lines: Sequence[LogLine] = ()
