"""The check that a job which crashes before or after a sink's calls still stores each epoch once."""

import logging
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import cloudpickle

from tidewheel.batches.batches import Batch, records
from tidewheel.operators.dataflow import Dataflow
from tidewheel.operators.sinks.sink import Sink, sink_operators
from tidewheel.progress import IntegerDomain, Time
from tidewheel.runtime.engines.job import Job
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.engines.run import run
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.snapshots.snapshots import Snapshots
from tidewheel.testing.simulated_crash import IN_MEMORY, Moment, SimulatedCrash
from tidewheel.transport.frames import unpicklable

Visible: TypeAlias = Literal["snapshot", "epoch"]
Read: TypeAlias = Callable[[Path], Mapping[Time, Iterable[Any]]]

_TIMEOUT_S = 60.0


def check_sink(
    make: Callable[[Path], Sink],
    read: Read,
    epochs: Sequence[Sequence[Any]],
    *,
    workers: int = 2,
    workers_after: int = 3,
) -> None:
    """Check that a sink stores each epoch once and completely, if a job crashes before or after any of its calls.

    A job on the local engine stores some epochs. Each run crashes before or after a different call of the sink. The job
    then continues with another object, from its last snapshot or from its beginning. At the end each epoch is committed
    once more. The check tries neither crashes within a call nor power failures. A sink survives the former if it makes
    an epoch visible and records it in one step, such as a transaction; the latter if it calls fsync, or uses a database
    that does.

    Args:
        make: ``make(folder)`` returns a sink with an empty destination. The folder is new and empty. Its name is
            unique, so it can name a destination elsewhere, such as a table.
        read: ``read(folder)`` returns the visible records of each epoch.
        epochs: the records of each epoch, from time 0 on, with distinct ``repr``.
        workers: the number of workers before the crash.
        workers_after: the number of workers after the crash.

    Raises:
        AssertionError: the sink breaks its contract; the message says how, and at which call the job has crashed.
        GraphError: ``make`` does not return a sink, or the sink cannot be used.
        ValueError: no epoch has records.
    """
    expected = {time: Counter(map(repr, part)) for time, part in enumerate(epochs) if part}
    if not expected:
        raise ValueError("check_sink: epochs has no records, so a sink would have nothing to store")
    log = logging.getLogger(Job.__module__)
    log.addFilter(_is_real)
    try:
        for visible in ("snapshot", "epoch"):
            checked = _Checked(make, read, epochs, expected, visible, workers, workers_after)
            for call in checked.store():
                if call.name == "last_committed" and call.number:
                    continue  # workers begin alike
                for is_after in (False, True):
                    checked.store(Moment(call, is_after))
    finally:
        log.removeFilter(_is_real)


def _is_real(record: logging.LogRecord) -> bool:
    return SimulatedCrash.__name__ not in record.getMessage()


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of the sink, with the number of earlier calls in this run."""

    name: str
    epoch: Time | None
    number: int

    def __str__(self) -> str:
        return f"{self.name}({'' if self.epoch is None else repr(self.epoch)})"


class _Watched(Sink):
    """Records the calls of a sink, and crashes at most once.

    Workers that prepare use other objects than the worker that commits.
    """

    def __init__(self, sink: Sink, look: Callable[["_Watched"], None], crash: Moment[_Call] | None) -> None:
        sink_operators(sink, IntegerDomain(), 1, "epoch")
        self._packed = cloudpickle.dumps(sink)
        self._look = look if crash is None else None
        self._crash = crash
        self._has_crashed = False
        self._in_use: list[Sink] = []
        self.parts: dict[Time, list[Any]] = {}
        self.committed: list[Time] = []

    def __reduce__(self) -> Any:
        return object, ()  # the local engine makes no copies

    def close(self) -> None:
        for sink in self._in_use:
            sink.close()
        self._in_use = []

    def begin(self) -> None:
        self.close()
        self._preparing, self.committing = (pickle.loads(self._packed) for _ in range(2))  # noqa: S301 - its own
        self._in_use = [self._preparing, self.committing]
        self.calls: list[_Call] = []

    def prepare(self, epoch: Time, records: Batch) -> Any:
        if self._look is not None and (refused := self._preparing.refused(records)):
            raise AssertionError(
                f"refused() names records of epoch {epoch!r}, all of which have to be stored: {refused!r}"
            )
        part = self._called("prepare", epoch, self._preparing.prepare, epoch, records)
        if (reason := unpicklable(part)) is not None:
            raise AssertionError(f"prepare({epoch!r}) returns {part!r}, which travels and cannot be pickled: {reason}")
        if self._look is not None:
            self._look(self)
        return pickle.loads(cloudpickle.dumps(part))  # noqa: S301 - its own

    def commit(self, epoch: Time, parts: list[Any]) -> None:
        self.parts[epoch] = list(parts)
        self._called("commit", epoch, self.committing.commit, epoch, parts)

    def last_committed(self) -> Time | None:
        found: Time | None = self._called("last_committed", None, self.committing.last_committed)
        known = self.committed[-1] if self.committed else None
        if found != known:
            commits = f"after commit({known!r}) has returned" if self.committed else "before any commit"
            raise AssertionError(f"last_committed() returns {found!r} {commits}{self.place()}")
        return found

    def place(self) -> str:
        return f", with a crash {self._crash}" if self._has_crashed else ""

    def _called(self, name: str, epoch: Time | None, function: Callable[..., Any], *given: Any) -> Any:
        call = _Call(name, epoch, sum((one.name, one.epoch) == (name, epoch) for one in self.calls))
        self._crash_at(Moment(call, is_after=False))
        result = function(*given)
        self.calls.append(call)
        if name == "commit":
            self.committed.append(epoch)
        self._crash_at(Moment(call, is_after=True))
        return result

    def _crash_at(self, moment: Moment[_Call]) -> None:
        if moment == self._crash and not self._has_crashed:
            self._has_crashed = True
            raise SimulatedCrash


@dataclass
class _Checked:
    """All runs of the check, each with a new destination and at most one crash."""

    make: Callable[[Path], Sink]
    read: Read
    epochs: Sequence[Sequence[Any]]
    expected: dict[Time, Counter[str]]
    visible: Visible
    workers: int
    workers_after: int

    def store(self, crash: Moment[_Call] | None = None) -> list[_Call]:
        with tempfile.TemporaryDirectory(prefix="tidewheel-", dir=IN_MEMORY) as scratch:
            folder = Path(scratch, "sink")
            folder.mkdir()
            sink = _Watched(self.make(folder), partial(self._check_whole, folder), crash)
            if crash is not None:
                sink.begin()
                with suppress(SimulatedCrash):
                    self._run(sink, Path(scratch, "snapshots"), self.workers)
                self._check_whole(folder, sink)
            sink.begin()
            self._run(sink, Path(scratch, "snapshots"), self.workers if crash is None else self.workers_after)
            self._check_whole(folder, sink)
            calls = sink.calls
            self._check_all(folder, sink, "")
            for time, parts in sink.parts.items():
                sink.begin()
                sink.last_committed()
                sink.committing.commit(time, parts)
                self._check_all(folder, sink, f"commit({time!r}) was called again, and has to do nothing: ")
            sink.begin()
            sink.last_committed()
            sink.close()
            return calls

    def _run(self, sink: _Watched, snapshots: Path, workers: int) -> None:
        flow = Dataflow("sink")
        flow.input("records").sink(sink, visible=self.visible)
        kept = Snapshots(snapshots, every_s=1e9) if self.visible == "snapshot" else None
        try:
            self._feed(run(flow, engine="local", workers=workers, snapshots=kept))
        except JobError as error:
            if isinstance(error.__cause__, AssertionError):
                raise error.__cause__ from None
            raise

    def _feed(self, job: Job) -> None:
        with job:
            assert isinstance(job, LocalJob), "that is the engine"
            handle = job.input("records")
            for time in range(handle.position.time, len(self.epochs)):
                for record in self.epochs[time]:
                    handle.send([record])
                handle.advance_to(time + 1)
                while job.run_round():
                    pass
            handle.close()
            job.wait(_TIMEOUT_S)

    def _found(self, folder: Path) -> dict[Time, Counter[str]]:
        return {time: Counter(map(repr, records(list(part)))) for time, part in self.read(folder).items()}

    def _check_whole(self, folder: Path, sink: _Watched) -> None:
        for time, seen in self._found(folder).items():
            if time not in sink.committed:
                raise AssertionError(f"a reader sees epoch {time!r} before its commit{sink.place()}")
            self._check(time, seen, sink, "")

    def _check_all(self, folder: Path, sink: _Watched, why: str) -> None:
        found = self._found(folder)
        for time in {**self.expected, **found}:
            self._check(time, found.get(time, Counter()), sink, why)

    def _check(self, time: Time, seen: Counter[str], sink: _Watched, why: str) -> None:
        expected = self.expected.get(time, Counter())
        missing, surplus = expected - seen, seen - expected
        if missing or surplus:
            raise AssertionError(
                f"{why}epoch {time!r} misses {dict(missing)!r} and has {dict(surplus)!r} too much{sink.place()}"
            )
