"""The report of a worker on itself between two steps, for `Job.explain` and `Job.statistics`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tidewheel.host.process_memory import ProcessUse
from tidewheel.host.recent_lines import LogLine
from tidewheel.progress import Knowledge, Time
from tidewheel.runtime.messages.statistics import InputStatistics, WorkerStatistics


@dataclass(frozen=True, slots=True)
class OpenSubstreams:
    """The substreams of one declaration that have not ended on a worker.

    Attributes:
        name: of the declaration.
        count: how many.
        keys: some of their keys, for people.
        waiting: how many keys wait to be used again.
    """

    name: str
    count: int
    keys: tuple[str, ...]
    waiting: int


if TYPE_CHECKING:
    pass

NEXT_SNAPSHOT = "the next snapshot"
"""The event for which an operator waits that sends what a durable snapshot has."""

Counts: TypeAlias = Mapping[tuple[int, Time], int]
"""Numbers of tokens by (location number, time)."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """One worker at one moment.

    Locations have their numbers in `Plan.graph` for one worker.

    Attributes:
        knowledge: what it knows of all pointstamps of the job, and what it has told of its own.
        tokens: the tokens that its operators hold.
        awaited: those of them that notificators hold, for times of which the operators asked to be told.
        queued: the messages that have arrived here and wait at an input.
        held: those that have arrived, and may not be received yet for what else is to come of their substream.
        scheduled: the numbers of the operators that run in its next step.
        expected: the numbers of the operators that wait for a thread to activate them, and for nothing else.
        waits_for: the events for which operators keep tokens by design, by the number of the operator, in words.
        asked: the numbers of the operators that have asked to be scheduled, now or later, whatever arrives.
        statistics: what it has done; the operators' frontiers are left out.
        open_substreams: those of which it lets more in.
        fed, feeders: what other processes have sent to the inputs, and who they are, if it is this worker that knows.
        queued_bytes: the bytes that wait at inputs, by the number of the location; none where nothing waits.
        leaked: how many tokens operators have dropped, by name.
        state_keys: how many keys or items the states of operators have, by name; none of those without.
        state_bytes: about how many bytes these states take, as far as it is known.
        process: what its process uses.
        lines: the last warnings and errors that its process has logged.
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

    ``operator`` is None if it is not known which; ``seconds`` is how long the call has taken so far. One that
    ``is_dead`` does not answer any more. ``lines`` are the last that its process has logged.
    """

    worker: int
    operator: str | None = None
    time: Time | None = None
    seconds: float = 0.0
    is_dead: bool = False
    lines: tuple[LogLine, ...] = ()
