"""A worker's report between two steps, for `Job.explain` and `Job.statistics`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tidewheel.host.process_memory import ProcessUse
from tidewheel.host.recent_lines import LogLine
from tidewheel.progress import Knowledge, Time
from tidewheel.runtime.messages.statistics import InputStatistics, WorkerStatistics


@dataclass(frozen=True, slots=True)
class OpenSubstreams:
    """The open substreams of one declaration on a worker."""

    name: str
    count: int
    keys: tuple[str, ...]
    waiting: int


if TYPE_CHECKING:
    pass

NEXT_SNAPSHOT = "the next snapshot"
"""The event that an operator awaits if it sends only records of durable snapshots."""

Counts: TypeAlias = Mapping[tuple[int, Time], int]
"""Numbers of tokens by (location number, time)."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """One worker at one moment.

    Locations have their numbers in `Plan.graph` for one worker.

    Attributes:
        knowledge: its knowledge of all pointstamps of the job, and its sent changes.
        awaited: the tokens of notificators, for times that operators asked for.
        held: arrived messages that must wait for others of their substream.
        expected: the operators that wait only for a thread to activate them, by number.
        waits_for: the events for which operators keep tokens by design, by number, in words.
        asked: the operators that have asked to be scheduled, whatever arrives, by number.
        fed, feeders: the names and counts of other feeding processes, if this worker knows them.
        queued_bytes: the bytes waiting at inputs, by location number.
        state_keys: the number of keys or items in operators' states, by name.
        state_bytes: about how many bytes these take, as far as known.
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
    asked: frozenset[int] = frozenset()
    waits_for: Mapping[int, str] = field(default_factory=dict)
    queued_bytes: Mapping[int, int] = field(default_factory=dict)
    leaked: Mapping[str, int] = field(default_factory=dict)
    state_keys: Mapping[str, int] = field(default_factory=dict)
    state_bytes: Mapping[str, int] = field(default_factory=dict)
    process: ProcessUse | None = None
    lines: tuple[LogLine, ...] = ()


@dataclass(frozen=True, slots=True)
class BusyWorker:
    """A worker that did not answer in time, because it is inside an operator.

    ``operator`` is None if it is unknown; ``seconds`` is how long the call has taken. One that ``is_dead`` answers no
    more.
    """

    worker: int
    operator: str | None = None
    time: Time | None = None
    seconds: float = 0.0
    is_dead: bool = False
    lines: tuple[LogLine, ...] = ()
