"""The facts from which a document is made: facts of a job, and of one moment."""

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
    """The facts of a job that never change.

    Attributes:
        outline: the dataflow as the program described it. The document uses the numbers of its operators.
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
        topics: the statistics of each partition, by topic. A missing topic has not changed.
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
