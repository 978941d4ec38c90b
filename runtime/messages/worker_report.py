"""A worker's report between two steps, for `Job.explain` and `Job.statistics`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tidewheel.host.process_memory import ProcessUse
from tidewheel.host.recent_lines import LogLine
from tidewheel.progress import Knowledge, Time
from tidewheel.runtime.messages.connector_numbers import ConnectorNumbers
from tidewheel.runtime.messages.statistics import InputStatistics, WorkerStatistics


@dataclass(frozen=True, slots=True)
class OpenSubstreams:
    name: str
    count: int
    keys: tuple[str, ...]
    waiting: int


if TYPE_CHECKING:
    pass

NEXT_SNAPSHOT = "the next snapshot"
"""The event that an operator awaits if it sends records only after a snapshot has made them durable."""

Counts: TypeAlias = Mapping[tuple[int, Time], int]
"""Numbers of tokens by (location number, time)."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The state of one worker at one moment.

    The numbers of locations are those of `Plan.graph` for one worker.

    Attributes:
        knowledge: the worker's knowledge of all pointstamps of the job, and the changes it has sent.
        awaited: the tokens that notificators hold for times that operators wait for.
        held: arrived messages that must wait for others of their substream.
        expected: the numbers of the operators that only a thread will activate.
        waits_for: by number, for operators that keep tokens by design: the event that they wait for, in words.
        asked: the numbers of the operators that have asked to be scheduled, even if nothing arrives.
        fed, feeders: the counts and names of the other processes that feed the job, as far as this worker knows.
        queued_bytes: the bytes waiting at inputs, by location number.
        state_keys: the number of keys or items in each operator's state, by name.
        state_bytes: about how many bytes each operator's state takes, as far as known.
        connectors: the numbers of sources and sinks, by the name of the operator.
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
    connectors: Mapping[str, ConnectorNumbers] = field(default_factory=dict)
    process: ProcessUse | None = None
    lines: tuple[LogLine, ...] = ()


@dataclass(frozen=True, slots=True)
class BusyWorker:
    """A worker that did not answer in time, because it is inside an operator.

    ``operator`` is None if unknown; ``seconds`` is how long the call of the operator has taken so far. If ``is_dead``,
    the worker will never answer.
    """

    worker: int
    operator: str | None = None
    time: Time | None = None
    seconds: float = 0.0
    is_dead: bool = False
    lines: tuple[LogLine, ...] = ()
