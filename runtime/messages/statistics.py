"""The statistics of a job: counts and times by operator, by edge and by worker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import TypeAlias, TypeVar

from tidewheel.progress import Time

_OPERATOR_COUNTS = attrgetter("schedules", "seconds", "records_in", "records_out")
_WORKER_COUNTS = attrgetter(
    "worker", "steps", "bytes_in_flight", "progress_messages", "progress_changes", "progress_bytes", "leaks"
)
_TOPIC_COUNTS = ("records", "subscribers", "lag_bytes", "lag_messages", "overflows", "epochs_dropped", "holders")


@dataclass(frozen=True, slots=True)
class OperatorStatistics:
    """The counts of one operator, on one worker or on all of them.

    Attributes:
        messages_out, records_out: the numbers of sent messages and records; a message to several readers counts once.
        records_dropped: the number of records sent to unread outputs, such as the late records of windows.
        frontier: the earliest times that the operator can still receive or, without inputs, still send; empty if there
            are none.
    """

    schedules: int = 0
    seconds: float = 0.0
    messages_in: int = 0
    records_in: int = 0
    messages_out: int = 0
    records_out: int = 0
    records_dropped: int = 0
    frontier: tuple[Time, ...] = ()


@dataclass(frozen=True, slots=True)
class EdgeStatistics:
    """The traffic of one edge, from a ``source`` such as ``output 0 of 'map'`` to a ``target``.

    ``bytes`` is the size in memory; for lists it is estimated from the first record.
    """

    source: str
    target: str
    messages: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class InputStatistics:
    """The counts of the batches sent to one input, and how long their senders waited.

    ``bytes`` is the size in memory, as for edges.
    """

    batches: int = 0
    records: int = 0
    bytes: int = 0
    seconds_waited: float = 0.0

    def __add__(self, other: "InputStatistics") -> "InputStatistics":
        return _summed([self, other])


_Row: TypeAlias = tuple[str | int | float, ...]
_Counts = TypeVar("_Counts", OperatorStatistics, EdgeStatistics, InputStatistics)


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """The counts of one worker.

    Attributes:
        progress_messages, progress_changes, progress_bytes: the numbers of progress messages sent and of their net
            changes, and roughly their pickled size.
        bytes_in_flight: the bytes waiting at the worker's inputs and on their way to other workers.
    """

    worker: int
    steps: int = 0
    progress_messages: int = 0
    progress_changes: int = 0
    progress_bytes: int = 0
    leaks: int = 0
    bytes_in_flight: int = 0
    operators: Mapping[str, OperatorStatistics] = field(default_factory=dict)
    edges: tuple[EdgeStatistics, ...] = ()


@dataclass(frozen=True, slots=True)
class JobStatistics:
    """The counts of a job, from the reports of its workers; print it for a table.

    ``workers`` has the workers that answered, ``silent`` the numbers of workers that are busy in an operator.
    ``inputs`` has the counts for each input; the counts of other processes may be a second old.

    ``topics`` has, for each topic and partition, the counts of its publisher; they are empty if the publisher does not
    answer. ``subscribers`` is the number of subscribers, ``lag_bytes`` and ``lag_messages`` the lag of the slowest.
    ``overflows`` counts subscribers cut off since they fell behind, ``epochs_dropped`` the epochs that slow subscribers
    missed, and ``holders`` the subscribers that hold back the dataflow. With exactly-once delivery the counts are
    ``messages``, ``subscriptions``, ``unread``, ``log_bytes`` and others.
    """

    workers: tuple[WorkerStatistics, ...]
    silent: tuple[int, ...] = ()
    inputs: Mapping[str, InputStatistics] = field(default_factory=dict)
    topics: Mapping[str, Sequence[Mapping[str, int]]] = field(default_factory=dict)

    @property
    def operators(self) -> dict[str, OperatorStatistics]:
        """The counts of operators by name, summed over the workers, in the order of the program."""
        names = self.workers[0].operators if self.workers else ()
        return {name: _summed([worker.operators[name] for worker in self.workers]) for name in names}

    @property
    def edges(self) -> tuple[EdgeStatistics, ...]:
        """The counts of edges, summed over the workers."""
        return tuple(_summed(edge) for edge in zip(*(worker.edges for worker in self.workers), strict=True))

    def __str__(self) -> str:
        done = self.operators
        drops = any(one.records_dropped for one in done.values())
        operators: list[_Row] = [
            (
                name,
                *_OPERATOR_COUNTS(one),
                *([one.records_dropped] if drops else []),
                ", ".join(map(repr, one.frontier)) or "ended",
            )
            for name, one in done.items()
        ]
        edges = [(f"{edge.source} -> {edge.target}", edge.messages, edge.records, edge.bytes) for edge in self.edges]
        inputs = [(name, one.batches, one.records, one.bytes, one.seconds_waited) for name, one in self.inputs.items()]
        topics = [
            (name, partition, *(counts.get(title, "-" if counts else "?") for title in _TOPIC_COUNTS))
            for name, partitions in self.topics.items()
            for partition, counts in enumerate(partitions)
        ]
        workers: list[_Row] = list(map(_WORKER_COUNTS, self.workers))
        workers += [(worker, "busy in an operator, did not answer", "", "", "", "", "") for worker in self.silent]
        tables = (
            _table(f"operator, schedules, seconds, records in, records out, {'dropped, ' * drops}frontier", operators),
            _table("edge, messages, records, bytes", edges),
            _table("input, batches, records, bytes, seconds waited", inputs),
            _table(f"topic, partition, {', '.join(_TOPIC_COUNTS)}".replace("_", " "), topics),
            _table("worker, steps, bytes in flight, progress messages, changes, bytes, leaks", workers),
        )
        return "\n\n".join(filter(None, tables))

    __repr__ = __str__


def _summed(parts: Sequence[_Counts]) -> _Counts:
    numbers = [one.name for one in fields(parts[0]) if isinstance(getattr(parts[0], one.name), int | float)]
    return replace(parts[0], **{name: sum(getattr(part, name) for part in parts) for name in numbers})


def _table(titles: str, rows: Sequence[_Row]) -> str:
    if not rows:
        return ""
    shown = [titles.split(", ")]
    shown += [[f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    )
