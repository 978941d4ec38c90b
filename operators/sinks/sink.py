"""Sinks that store each epoch once, even across crashes: the contract, and the operators that fulfil it.

On each worker, the first operator lets the sink prepare the worker's part of an epoch. On worker 0, the last operator
commits all parts of a complete epoch. Between the two, `covered.py` may hold parts. Invariants:

- A part is durable when `Sink.prepare` returns. From then on the dataflow has its result, in the state of an operator
  or in a message, and so in each later snapshot.
- One call of `Sink.commit` gets all parts of an epoch. So no epoch is committed on some workers only, and the number of
  workers may change in between.
- Epochs are committed in order. The sink records the number of the last epoch in the same step that makes it visible. A
  new run skips all epochs up to `Sink.last_committed`.
- With ``visible="snapshot"`` an epoch is committed once a durable snapshot has its parts. So no later run can compute
  another result for a visible epoch.

Source: the two-phase commit of Flink's TwoPhaseCommitSinkFunction, with one commit for all workers, as in Spark's
BatchWrite. No transaction of the destination stays open between calls, so none can time out.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import iscoroutinefunction, isgeneratorfunction, signature
from numbers import Integral
from operator import add
from typing import Any

from tidewheel.batches.batches import Batch, keep, length, size_in_bytes
from tidewheel.batches.batches import records as records_of
from tidewheel.batches.held_bytes import RecordSizes
from tidewheel.operators.base.division import at_first
from tidewheel.operators.base.setting_aside import Aside, Caught, letter
from tidewheel.operators.epochs.gathered_epochs import joined
from tidewheel.operators.sinks.sink_counts import counts_of
from tidewheel.progress import GraphError, ProductDomain, Time, TimeDomain
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort
from tidewheel.transport.frames import unpicklable

PART_BYTES = 128 << 20


class Sink(ABC):
    """A destination that stores each epoch once, for `Stream.sink`.

    Each worker has its own object, which may be lost at any moment and unpickled again. So keep everything that must
    last in the destination. `tidewheel.testing.check_sink` checks a sink.

    >>> import sqlite3
    >>> from contextlib import closing
    >>> class Totals(Sink):
    ...     def __init__(self, path):
    ...         self.path = path
    ...
    ...     def connect(self):
    ...         database = sqlite3.connect(self.path)
    ...         database.execute("CREATE TABLE IF NOT EXISTS totals (epoch INTEGER PRIMARY KEY, total INTEGER)")
    ...         return closing(database)
    ...
    ...     def commit(self, epoch, parts):
    ...         total = sum(sum(numbers) for numbers in parts)
    ...         with self.connect() as database, database:  # one transaction
    ...             database.execute("INSERT OR IGNORE INTO totals VALUES (?, ?)", (epoch, total))
    ...
    ...     def last_committed(self):
    ...         with self.connect() as database:
    ...             return database.execute("SELECT max(epoch) FROM totals").fetchone()[0]
    """

    def prepare(self, epoch: Time, records: Batch) -> Any:
        """Store records of an epoch where no reader sees them; return a part, by which `commit` finds them.

        Each worker with records of the epoch calls this method, more than once for many records. It returns once they
        are durable; the part must be picklable. By default the part is the records themselves, which are sent to worker
        0; a sink for large epochs stores them and returns their place.

        After a crash an epoch is prepared again, so use new places; earlier parts may never be committed.
        """
        return records

    def refused(self, records: Batch) -> Mapping[int, Exception]:
        """Return the records that the destination would not take, by their place in the batch, each with the reason.

        Workers call this method only if `Stream.sink` has ``dead_letters=``. Then `prepare` receives the records that
        were not refused. The method may be called more than once for a record, and stores nothing.
        """
        return {}

    @abstractmethod
    def commit(self, epoch: Time, parts: list[Any]) -> None:
        """Make an epoch visible and record it as the last epoch, in one durable step.

        Worker 0 calls this method in the order of epochs, but not for epochs without records. It must do nothing if the
        epoch is committed already: a worker that seemed dead may have committed it.

        Args:
            epoch: its time.
            parts: all results of `prepare` for the epoch, in any order.
        """

    @abstractmethod
    def last_committed(self) -> Time | None:
        """Return the last visible epoch, read from the destination; None if there is none.

        Each worker calls this method first, and skips the epochs up to this one.
        """

    def close(self) -> None:  # noqa: B027 - few sinks have anything to close
        """Close the sink's connections on this worker. This is called at the end of the job, perhaps more than once."""


@dataclass(slots=True)
class _Prepared:
    """One worker's part of an epoch: prepared parts, records that wait to be prepared, and letters for refused ones."""

    parts: list[Any] = field(default_factory=list)
    records: int = 0
    waiting: list[Batch] = field(default_factory=list)
    waiting_bytes: int = 0
    sizes: RecordSizes = field(default_factory=RecordSizes)
    letters: list[Aside] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        self.records += length(batch)
        self.waiting.append(batch)
        self.waiting_bytes += size_in_bytes(batch, self.sizes)

    def merge(self, other: "_Prepared") -> "_Prepared":
        """Add the part of another worker."""
        waiting, size = self.waiting + other.waiting, self.waiting_bytes + other.waiting_bytes
        records, letters = self.records + other.records, self.letters + other.letters
        return _Prepared(self.parts + other.parts, records, waiting, size, self.sizes, letters)


@dataclass(frozen=True, slots=True)
class SinkOperators:
    """The build functions of the operators of a sink.

    Attributes:
        make: returns the sink for a worker; it may create states of the operator.
        domain: the order of the epochs.
        part_bytes: the size in memory at which a worker lets the sink prepare a part.
        waits: whether an epoch of a job with snapshots is committed only once a snapshot has its parts.
        result: returns the output for a committed epoch and its number of records.
        key: the key of the counts that the operators share; see `counts_of`.
        caught: the errors for which a refused record is set aside, as a letter among the parts.
    """

    make: Callable[[OperatorContext], Sink]
    domain: TimeDomain
    part_bytes: int
    waits: bool
    result: Callable[[Any, Time, int], Any]
    join: Callable[[list[Batch]], Any]
    key: str = ""
    caught: Caught = ()

    def build_prepare(self, context: OperatorContext) -> Schedule:
        """Build the operator that sends, for each epoch, this worker's parts and their number of records."""
        sink = self.make(context)
        context.on_close(sink.close)
        last = self._last_of(sink)
        epochs: dict[Time, _Prepared] = at_first(_Prepared.merge).of_each().state(context, "parts", dict)
        notificator = context.notificator()
        counts = counts_of(context, self.key)
        counts.waiting.append(epochs)
        instance_of(context).connector = counts.numbers

        def prepare(time: Time, part: _Prepared) -> None:
            if part.waiting and not self._has(last, time):
                records = self._taken(sink, self.join(part.waiting), part)
                if length(records):
                    part.parts.append(sink.prepare(time, records))
            part.waiting, part.waiting_bytes = [], 0

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in input:
                time = lent.time
                if time not in epochs:
                    epochs[time] = _Prepared()
                    notificator.notify_at(lent)
                epochs[time].add(batch)
                if epochs[time].waiting_bytes >= self.part_bytes:
                    prepare(time, epochs[time])
            for token in notificator.ready(input, sequential=False):
                if token.time in epochs:
                    part = epochs.pop(token.time)
                    prepare(token.time, part)
                    output.send(token, [(part.parts, part.records), *part.letters])

        return schedule

    def _taken(self, sink: Sink, records: Batch, part: _Prepared) -> Batch:
        """Return the records that the sink takes, and add letters for the others to the worker's part."""
        if not self.caught:
            return records
        refused = sink.refused(records)
        _check_refused(type(sink).__qualname__, refused, length(records))
        if not refused:
            return records
        rows = records_of(records)
        for place, error in refused.items():
            if not isinstance(error, self.caught):
                raise error
            part.letters.append(Aside(letter(rows[place], error)))
        part.records -= len(refused)
        return keep(records, [place not in refused for place in range(length(records))])

    def build_commit(self, context: OperatorContext) -> Schedule:
        """Build the operator that commits each epoch on worker 0, and sends its result."""
        sink = self.make(context)
        context.on_close(sink.close)
        last = None if context.worker else self._last_of(sink)
        epochs: dict[Time, list[tuple[list[Any], int]]] = at_first(add).of_each().state(context, "epochs", dict)
        notificator = context.notificator()
        counts = counts_of(context, self.key)
        counts.waiting.append(epochs)

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in input:
                if lent.time not in epochs:
                    epochs[lent.time] = []
                    notificator.notify_at(lent)
                epochs[lent.time] += batch
            for token in notificator.ready(input):
                if token.time in epochs:
                    all_of = epochs.pop(token.time)
                    parts = [part for some, _ in all_of for part in some]
                    records = sum(records for _, records in all_of)
                    if parts and not self._has(last, token.time):
                        sink.commit(token.time, parts)
                        counts.commit(records, time.time())
                    output.send(token, [self.result(sink, token.time, records)])

        return schedule

    def _last_of(self, sink: Sink) -> Time | None:
        last = sink.last_committed()
        if last is not None and not self.domain.contains(last):
            raise GraphError(
                f"{type(sink).__qualname__}.last_committed() returned {last!r}, which is no time of this stream, where "
                f"times are {self.domain.describe()}. Return the last epoch that commit() has stored, or None"
            )
        return last

    def _has(self, last: Time | None, time: Time) -> bool:
        return last is not None and self.domain.less_equal(time, last)


def _check_refused(kind: str, refused: object, records: int) -> None:
    """Raise TypeError unless these are places in a batch of so many records, each with an exception."""
    is_dict = isinstance(refused, Mapping)
    if not is_dict or not all(
        isinstance(place, Integral) and 0 <= int(place) < records and isinstance(error, Exception)
        for place, error in refused.items()  # type: ignore[attr-defined]
    ):
        raise TypeError(
            f"{kind}.refused returns a dict of places in the batch of {records:,}, from 0 on, each with an exception, "
            f"such as {{0: ValueError('too long')}}, not {refused!r:.200}"
        )


def sink_operators(sink: object, domain: TimeDomain, part_bytes: int, visible: str) -> SinkOperators:
    """Return the operators of a user's sink.

    Raises:
        GraphError: ``sink`` is not a sink or cannot be pickled, a method is async or has other parameters, ``visible``
            is neither "snapshot" nor "epoch", or times have no total order.
    """
    if not isinstance(sink, Sink):
        raise GraphError(f"sink: it is an object of a subclass of tw.Sink, not of {type(sink).__qualname__}")
    for name, given in (
        ("prepare", ("epoch", "records")),
        ("refused", ("records",)),
        ("commit", ("epoch", "parts")),
        ("last_committed", ()),
    ):
        method, called = getattr(sink, name), f"{type(sink).__qualname__}.{name}"
        if iscoroutinefunction(method) or isgeneratorfunction(method):
            raise GraphError(
                f"sink: {called} is async or yields, and the worker awaits nothing. Write it with def and return; it "
                "may call asyncio.run"
            )
        try:
            signature(method).bind(*given)
        except TypeError as error:
            raise GraphError(f"sink: {called} is called with ({', '.join(given)}), and cannot be: {error}") from None
    if (reason := unpicklable(sink)) is not None:
        raise GraphError(
            f"sink: each worker receives a copy of the {type(sink).__qualname__}, which cannot be pickled: {reason}. "
            "Keep what it needs to connect, such as a path, and connect in its methods"
        )
    if visible not in ("snapshot", "epoch"):
        raise GraphError(f"sink: visible is 'snapshot' or 'epoch', not {visible!r}")
    if isinstance(domain, ProductDomain):
        raise GraphError(
            "sink: inside a loop, or at pairs, times are in no order, and last_committed() returns one time. Store "
            "what leaves the loop"
        )
    return SinkOperators(lambda _: sink, domain, part_bytes, visible == "snapshot", lambda _, time, __: time, joined)
