"""The check that a job which crashes before or after a source's calls still has each record once."""

import logging
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from secrets import randbits
from typing import Any, Literal, TypeAlias
from zlib import crc32

import cloudpickle

from tidewheel.batches.batches import records as records_of
from tidewheel.host.retry import Retry
from tidewheel.operators.dataflow import Dataflow
from tidewheel.operators.sources import readings
from tidewheel.operators.sources.contract import (
    Partition,
    Pause,
    Source,
    as_fetched,
    batch_of,
    check_source_object,
    saves,
)
from tidewheel.runtime.engines.job import Job
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.engines.run import run
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.snapshots.snapshots import Snapshots
from tidewheel.testing.simulated_crash import IN_MEMORY, Moment, SimulatedCrash

_Snapshots: TypeAlias = Literal["often", "once", "never", "none"]
"""When a run takes snapshots: after each step with records, after the first such step, only at its end, or never
(without snapshots)."""

_TIMEOUT_S = 20.0
_WAIT_S = 0.005
_PAUSE_S = 0.001
_LONGEST_DELAY_S = 0.003
_MOST_MOMENTS = 60


def check_source(
    make: Callable[[Path], Source[Any]],
    records: Mapping[Partition, Sequence[Any]],
    *,
    grow: Callable[[Path], object] | None = None,
    workers: int = 2,
    workers_after: int = 3,
    seed: int | None = None,
) -> None:
    """Check that a job has each record of a source once, if it crashes before or after any calls of the source.

    A job on the local engine reads the source, and crashes before or after a call. It continues on another number of
    workers with another object, crashes at another call, and continues again. With snapshots, the job must have each
    record once; without, its runs together must miss no record. In further runs, each call fails before and after it
    was made, and each call takes some time.

    Args:
        make: ``make(folder)`` returns a source of an external system with the initial records. The folder is new and
            empty; its name is unique, for a system outside the folder.
        records: all records of each partition in order, with distinct ``repr`` within a partition.
        grow: ``grow(folder)`` changes the external system while the job runs: it adds records or partitions, which
            ``records`` also has, or ends partitions.
        workers: the number of workers before the crash.
        workers_after: the number of workers after the crash.
        seed: the seed for the moments, if there are many, and the durations of calls; by default a new seed each time.

    Raises:
        AssertionError: the source breaks its contract; the message says how, at which calls the job has crashed, and
            the seed.
        GraphError: ``make`` does not return a source, or the source cannot be used.
        ValueError: there are no records.
    """
    if not any(map(len, records.values())):
        raise ValueError("check_source: records has none, so a source would have nothing to read")
    chosen = randbits(32) if seed is None else seed
    checked = _Checked(make, records, grow, workers, workers_after, Random(chosen))  # noqa: S311 - no secrets
    logs = [readings.LOGGER, logging.getLogger(Job.__module__)]
    for log in logs:
        log.addFilter(_is_real)
    try:
        checked.check()
    except AssertionError as error:
        error.add_note(f"Repeat it with seed={chosen}.")
        raise
    finally:
        for log in logs:
            log.removeFilter(_is_real)


def _is_real(record: logging.LogRecord) -> bool:
    said = record.getMessage()
    return _FailingError.__name__ not in said and SimulatedCrash.__name__ not in said


class _FailingError(Exception):
    """A simulated error of the external system."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a source, with the number of earlier calls of its kind for the partition in this run."""

    name: str
    partition: Partition | None
    number: int

    def __str__(self) -> str:
        of = "" if self.partition is None else repr(self.partition)
        return f"call {self.number} of {self.name}({of})"


@dataclass(frozen=True, slots=True)
class _Trouble:
    """The troubles of a run: at most one crash at a call, or errors and delays of all calls."""

    crash: Moment[_Call] | None = None
    fails: bool = False
    delays: Random | None = None


class _Watched(Source[Any]):
    """Records the calls of a source in one run, and makes them crash, fail or wait according to ``trouble``.

    The object that lists partitions differs from the objects that read, as on different workers.
    """

    def __init__(self, packed: bytes, kind: Source[Any], trouble: _Trouble) -> None:
        self._packed = packed
        self._kind = kind
        self._copies: dict[int, Source[Any]] = {}
        self._trouble = trouble
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, Partition | None]] = Counter()
        self._failed: set[tuple[str, Partition | None, bool]] = set()
        self.calls: list[_Call] = []
        self.has_crashed = False
        self.happened = threading.Event()
        self.listed: set[Partition] = set()
        self.lists = 0
        self.quiet: set[Partition] = set()
        self.read_to: dict[Partition, Any] = {}
        self.saved_to: dict[Partition, Any] = {}
        self.look_every_s = None if kind.look_every_s is None else _PAUSE_S
        self.endless = kind.endless
        self.at_a_time = kind.at_a_time
        self.says_epochs = kind.says_epochs
        on = kind.retry.on if isinstance(kind.retry.on, tuple) else (kind.retry.on,)
        self.retry = Retry(attempts=20, first_pause_s=_PAUSE_S, factor=1, on=(*on, _FailingError))

    def __reduce__(self) -> Any:
        return object, ()  # the local engine makes no copies

    def partitions(self) -> list[Partition]:
        listed: list[Partition] = self._called("partitions", None, lambda: list(self._copy(-1).partitions()))
        with self._lock:
            self.listed.update(listed)
            self.lists += 1
        self.happened.set()
        return listed

    def resumed(self, partitions: Collection[Partition]) -> None:
        self._copy(-1).resumed(partitions)

    def open(self, partition: Partition, position: Any) -> Iterator[Any]:
        source = self._of(partition)
        given = None if position is None else cloudpickle.loads(cloudpickle.dumps(position))
        iterator: Iterator[Any] = self._called("open", partition, lambda: iter(source.open(partition, given)))
        try:
            while True:
                try:
                    yielded = self._called("next", partition, lambda: next(iterator))
                except _EndedError:
                    break
                if isinstance(yielded, Pause):
                    self._note_quiet(partition)
                    yield Pause(min(yielded.seconds, _PAUSE_S))
                    continue
                fetched = as_fetched(source, partition, yielded)
                batch = [(partition, record) for record in records_of(batch_of(fetched))]
                with self._lock:
                    self.quiet.discard(partition)
                    self.read_to[partition] = fetched.position
                if not batch:
                    self._note_quiet(partition)
                yield replace(fetched, batch=batch)
            self._note_quiet(partition)
        finally:
            if (close := getattr(iterator, "close", None)) is not None:
                with suppress(_FailingError):
                    close()

    def close(self) -> None:
        copies, self._copies = self._copies, {}
        for copy in copies.values():
            copy.close()

    def _turn(self, partition: Partition) -> tuple[int, ...]:
        return self._kind._turn(partition)

    def _of(self, partition: Partition) -> Source[Any]:
        return self._copy(crc32(repr(partition).encode()) % 2)

    def _copy(self, number: int) -> Source[Any]:
        with self._lock:
            if number not in self._copies:
                self._copies[number] = cloudpickle.loads(self._packed)
            return self._copies[number]

    def _note_quiet(self, partition: Partition) -> None:
        with self._lock:
            self.quiet.add(partition)
        self.happened.set()

    def _called(self, name: str, partition: Partition | None, function: Callable[[], Any]) -> Any:
        with self._lock:
            call = _Call(name, partition, self._counts[name, partition])
            self._counts[name, partition] += 1
        self._suffer(call, is_after=False)
        try:
            result = function()
        except StopIteration:
            result = _EndedError()
        self._suffer(call, is_after=True)
        with self._lock:
            self.calls.append(call)
        if isinstance(result, _EndedError):
            raise result
        return result

    def _suffer(self, call: _Call, *, is_after: bool) -> None:
        if self._trouble.delays is not None:
            with self._lock:
                delay_s = self._trouble.delays.uniform(0, _LONGEST_DELAY_S)
            threading.Event().wait(delay_s)
        if Moment(call, is_after) == self._trouble.crash:
            self.has_crashed = True
            self.happened.set()
        if self.has_crashed:
            raise SimulatedCrash
        if self._trouble.fails and (key := (call.name, call.partition, is_after)) not in self._failed:
            if call.name == "next" and call.number % 2 == 0:
                return
            with self._lock:
                self._failed.add(key)
            raise _FailingError(f"{'after' if is_after else 'before'} {call}")


class _WatchedSaving(_Watched):
    """As `_Watched`, for a source with a method for saved positions."""

    def saved(self, partition: Partition, position: Any) -> None:
        given = cloudpickle.loads(cloudpickle.dumps(position))
        self._called("saved", partition, lambda: self._of(partition).saved(partition, given))
        with self._lock:
            self.saved_to[partition] = position
        self.happened.set()


class _EndedError(Exception):
    """An iterator has ended."""


@dataclass(slots=True)
class _Checked:
    """All runs of the check; each series of runs reads a new external system."""

    make: Callable[[Path], Source[Any]]
    records: Mapping[Partition, Sequence[Any]]
    grow: Callable[[Path], object] | None
    workers: int
    workers_after: int
    random: Random
    expected: Counter[str] = field(default_factory=Counter)

    def check(self) -> None:
        self.expected = Counter(repr((name, record)) for name, some in self.records.items() for record in some)
        clean = self._series([_Trouble()], "often")
        self._series([_Trouble()], "none")
        self._series([_Trouble(fails=True)], "often")
        self._series([_Trouble(fails=True)], "none")
        self._series([_Trouble(delays=self.random)], "often")
        moments = [Moment(call, is_after) for call in _worth(clean) for is_after in (False, True)]
        if len(moments) > _MOST_MOMENTS:
            moments = self.random.sample(moments, _MOST_MOMENTS)
        rest: tuple[_Snapshots, ...] = ("once", "never", "none")
        for number, moment in enumerate(moments):
            second = moments[(number * 7 + 3) % len(moments)]
            troubles = [_Trouble(moment), _Trouble(second), _Trouble()]
            self._series(troubles, "often")
            self._series([troubles[0], troubles[2]], rest[number % len(rest)])

    def _series(self, troubles: Sequence[_Trouble], snapshots: _Snapshots) -> list[_Call]:
        """Run a job repeatedly until it has ended; return the calls of its last run."""
        with tempfile.TemporaryDirectory(prefix="tidewheel-", dir=IN_MEMORY) as scratch:
            folder = Path(scratch, "source")
            folder.mkdir()
            source = self.make(folder)
            if not isinstance(source, Source):
                raise TypeError(f"check_source: make returns an object of a subclass of tw.Source, not {source!r:.200}")
            check_source_object("checked", source)
            series = _Series(self, folder, Path(scratch, "snapshots"), snapshots, cloudpickle.dumps(source), source)
            for number, trouble in enumerate(troubles):
                workers = self.workers if number == 0 else self.workers_after if number == 1 else 1
                if series.run(trouble, workers):
                    break
            return series.calls


def _worth(calls: Sequence[_Call]) -> list[_Call]:
    """Return the calls at which to try a crash, without the repeated listing and pausing of an endless source."""
    most = {"partitions": 2, "saved": 4, "open": 2, "next": 6}
    return sorted(
        {call for call in calls if call.number < most[call.name]},
        key=lambda call: (call.name, repr(call.partition), call.number),
    )


@dataclass(slots=True)
class _Series:
    """The runs of one job, until it has ended."""

    checked: _Checked
    folder: Path
    snapshots_folder: Path
    snapshots: _Snapshots
    packed: bytes
    kind: Source[Any]
    crashes: list[Moment[_Call]] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    has_grown: bool = False

    def run(self, trouble: _Trouble, workers: int) -> bool:
        """Run the job until it has ended or crashes; return whether it has ended."""
        source = (_WatchedSaving if saves(self.kind) else _Watched)(self.packed, self.kind, trouble)
        flow = Dataflow("source")
        flow.source("records", source).capture("records")
        kept = None if self.snapshots == "none" else Snapshots(self.snapshots_folder, every_s=1e9)
        job = run(flow, engine="local", workers=workers, snapshots=kept)
        assert isinstance(job, LocalJob), "that is the engine"
        try:
            job.start()
            self._drive(job, source)
        except JobError as error:
            if not source.has_crashed:
                raise AssertionError(f"the job fails{self._place()}: {error}") from error
        finally:
            job.stop()
        self.calls = source.calls
        if not source.has_crashed:
            return True
        assert trouble.crash is not None, "it has crashed"
        self.crashes.append(trouble.crash)
        return False

    def _drive(self, job: LocalJob, source: _Watched) -> None:
        until_s = time.monotonic() + _TIMEOUT_S
        taken = before = 0
        while not source.has_crashed:
            source.happened.clear()
            has_run = job.run_round()
            found = self._found(job)
            count = found.total()
            if self.snapshots == "none":
                self.seen |= found
            self._check_surplus(found)
            if not self.has_grown and self.checked.grow is not None and (count or job.is_complete):
                self.has_grown = True
                self.checked.grow(self.folder)
            if count > before and (self.snapshots == "often" or (self.snapshots == "once" and not taken)):
                before, taken = count, taken + 1
                self._snapshot(job, source)
            if self._has_ended(job, source, found):
                self._end(job, source, until_s)
                break
            if time.monotonic() > until_s:
                raise AssertionError(self._why_late(source, found))
            if not has_run:
                source.happened.wait(_WAIT_S)
        if source.has_crashed:
            return
        self._check(self._found(job))

    def _snapshot(self, job: LocalJob, source: _Watched) -> None:
        if not job.is_complete and not source.has_crashed:
            job.snapshot(_TIMEOUT_S)

    def _has_ended(self, job: LocalJob, source: _Watched, found: Counter[str]) -> bool:
        if job.is_complete:
            return True
        if source.look_every_s is None and not source.endless:
            return False
        is_all = (self.seen | found if self.snapshots == "none" else found) >= self.checked.expected
        return is_all and bool(source.lists or source.quiet) and source.quiet >= set(source.read_to)

    def _end(self, job: LocalJob, source: _Watched, until_s: float) -> None:
        """Wait until an endless source has received its last saved positions."""
        if job.is_complete or not saves(source):
            return
        has_run = False
        while not source.has_crashed and source.saved_to != {**source.saved_to, **source.read_to}:
            source.happened.clear()
            if self.snapshots != "none" and not has_run:  # again and again: a position may move without records
                self._snapshot(job, source)
            has_run = job.run_round()
            if not has_run:
                source.happened.wait(_WAIT_S)
            if time.monotonic() > until_s:
                raise AssertionError(f"saved() does not come to {source.read_to!r}, but to {source.saved_to!r}")

    def _found(self, job: LocalJob) -> Counter[str]:
        return Counter(repr(one) for captured in job.captured("records") for one in records_of(captured.batch))

    def _check_surplus(self, found: Counter[str]) -> None:
        if surplus := found - self.checked.expected:
            raise AssertionError(f"the job has {dict(surplus)!r} too much{self._place()}")

    def _check(self, found: Counter[str]) -> None:
        if self.snapshots == "none":
            found = self.seen | found
        if missing := self.checked.expected - found:
            raise AssertionError(f"the job misses {dict(missing)!r}{self._place()}")

    def _why_late(self, source: _Watched, found: Counter[str]) -> str:
        missing = self.checked.expected - (self.seen | found)
        loud = sorted(map(repr, set(source.read_to) - source.quiet))
        why = f"the job misses {dict(missing)!r}" if missing else f"partitions {', '.join(loud)} do not pause or end"
        return f"{why} after {_TIMEOUT_S:g} s{self._place()}"

    def _place(self) -> str:
        snapshots = {
            "often": "with snapshots",
            "once": "with one snapshot",
            "never": "with no snapshot before the crash",
            "none": "in a job without snapshots",
        }[self.snapshots]
        crashes = " and ".join(map(str, self.crashes))
        return f", {snapshots}" + (f", with a crash {crashes}" if crashes else "")
