"""The check of a sink: a job crashes at its calls and between its lines, and each epoch is stored once all the same."""

import gc
import logging
import os
import pickle
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
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
from tidewheel.transport.frames import unpicklable

Visible: TypeAlias = Literal["snapshot", "epoch"]
Read: TypeAlias = Callable[[Path], Mapping[Time, Iterable[Any]]]

_TIMEOUT_S = 60.0
_AFTER = -1
_IN_MEMORY = next((folder for folder in ("/dev/shm",) if os.access(folder, os.W_OK)), None)  # noqa: S108 - no power fails


def check_sink(
    make: Callable[[Path], Sink],
    read: Read,
    epochs: Sequence[Sequence[Any]],
    *,
    workers: int = 2,
    workers_after: int = 3,
) -> None:
    """Check that a sink stores each epoch once, and whole, wherever it crashes.

    A job on the local engine stores some epochs. Each run crashes at another moment: before or after a call of the
    sink or, in the last epoch, before a line of it or of another file in its folder. No handler of the sink runs after
    that, as if its process was killed. Then the job goes on with another object, from its last snapshot or from its
    beginning. After a crash in a commit there are runs with more crashes: at each line of `last_committed`, and at the
    same moment again. A power failure is not tried: call fsync, or let a database do so.

    Args:
        make: ``make(folder)`` returns a sink with an empty destination. The folder is new and empty. A destination
            elsewhere can have its name, which is like no other.
        read: ``read(folder)`` returns the records of each epoch as a reader of the destination sees them.
        epochs: the records of each epoch, from time 0 on, such that ``repr`` tells them apart.
        workers: how many workers there are before the crash.
        workers_after: how many there are after it.

    Raises:
        AssertionError: the sink breaks its contract; it says how, and at which call the job had crashed.
        GraphError: it is no sink, or cannot be used as one.
        ValueError: no epoch has records.
    """
    expected = {time: Counter(map(repr, part)) for time, part in enumerate(epochs) if part}
    if not expected:
        raise ValueError("check_sink: epochs has no records, so a sink would have nothing to store")
    log = logging.getLogger(Job.__module__)
    log.addFilter(_is_real)
    gc.freeze()  # so that it takes little time to collect what a crash has left
    try:
        for visible in ("snapshot", "epoch"):
            checked = _Checked(make, read, epochs, expected, visible, workers, workers_after)
            for call, lines in checked.store().items():
                is_last = visible == "snapshot" and call.epoch in (None, max(expected))
                for crash in call.moments(lines if is_last else 0):
                    begun, lines_begun = next(iter(checked.store(crash).items()))
                    if is_last and call.name == "commit":
                        checked.store(crash, *begun.moments(lines_begun), crash)
    finally:
        gc.unfreeze()
        log.removeFilter(_is_real)


def _is_real(record: logging.LogRecord) -> bool:
    """Tell whether a failure of a job is not one of ours."""
    return _Crashed.__name__ not in record.getMessage()


class _Crashed(BaseException):
    """The process of the job has died, as it were."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of the sink, and how many such there were before in this run."""

    name: str
    epoch: Time | None
    number: int

    def __str__(self) -> str:
        return f"{self.name}({'' if self.epoch is None else repr(self.epoch)})"

    def moments(self, lines: int) -> list[tuple["_Call", int]]:
        """Return the crashes that are worth a run: before the call or each of its lines, and after it."""
        is_again = self.name == "last_committed" and self.number > 0  # workers begin alike
        return [] if is_again else [(self, line) for line in (*range(lines > 0, 1 + lines), _AFTER)]


class _Watched(Sink):
    """Notes the calls of a sink, and crashes in each run at one, as long as there are crashes.

    Workers that prepare have another object than the one that commits.
    """

    def __init__(self, sink: Sink, look: Callable[["_Watched"], None], crashes: Sequence[tuple[_Call, int]]) -> None:
        sink_operators(sink, IntegerDomain(), 1, "epoch")
        methods = [getattr(type(sink), name) for name in ("prepare", "commit", "last_committed")]
        self._homes = {_home(one.__code__) for one in methods if one is not Sink.prepare}
        self._packed = cloudpickle.dumps(sink)
        self._look = None if crashes else look
        self._crashes = iter(crashes)
        self._crashed: list[str] = []
        self.parts: dict[Time, list[Any]] = {}
        self.begun: list[Time] = []
        self.committed: list[Time] = []

    def __reduce__(self) -> Any:
        return object, ()  # the local engine makes no copies

    def begin(self) -> None:
        """Make the objects again, as after a crash."""
        self._preparing, self.committing = (pickle.loads(self._packed) for _ in range(2))  # noqa: S301 - its own
        self._crash = next(self._crashes, None)
        self.calls: dict[_Call, int] = {}

    def prepare(self, epoch: Time, records: Batch) -> Any:
        """Call it."""
        part = self._called("prepare", epoch, self._preparing.prepare, epoch, records)
        if (reason := unpicklable(part)) is not None:
            raise AssertionError(f"prepare({epoch!r}) returns {part!r}, which travels and cannot be pickled: {reason}")
        if self._look is not None:
            self._look(self)
        return pickle.loads(cloudpickle.dumps(part))  # noqa: S301 - its own

    def commit(self, epoch: Time, parts: list[Any]) -> None:
        """Call it."""
        self.parts[epoch] = list(parts)
        self.begun.append(epoch)
        self._called("commit", epoch, self.committing.commit, epoch, parts)

    def last_committed(self) -> Time | None:
        """Call it, and compare what it returns with the commits."""
        found: Time | None = self._called("last_committed", None, self.committing.last_committed)
        known = self.committed[-1] if self.committed else None
        if found != known and found not in self.begun[len(self.committed) :]:
            commits = f"after commit({known!r}) has returned" if self.committed else "before any commit"
            raise AssertionError(f"last_committed() returns {found!r} {commits}{self.place()}")
        return found

    def place(self) -> str:
        """Say where the job has crashed; nothing if it has not."""
        return ", with a crash " + ", and one ".join(self._crashed) if self._crashed else ""

    def _called(self, name: str, epoch: Time | None, function: Callable[..., Any], *given: Any) -> Any:
        call = _Call(name, epoch, sum((one.name, one.epoch) == (name, epoch) for one in self.calls))
        line = self._crash[1] if self._crash is not None and self._crash[0] == call else None
        if line == 0:
            self._crashed.append(f"before {call}")
            raise _Crashed
        traced = _Lines(self._homes, line)
        try:
            result = traced.run(function, *given)
        except _Crashed:
            self._crashed.append(f"before {traced.place} in {call}")
            raise
        finally:
            self.calls[call] = len(traced.seen)
        if name == "commit":
            self.committed.append(epoch)
        if line == _AFTER:
            self._crashed.append(f"after {call}")
            raise _Crashed
        return result


def _home(code: CodeType) -> str:
    """Return the folder of a file; a file without one, such as that of a notebook, is on its own."""
    return os.path.dirname(code.co_filename) or code.co_filename  # noqa: PTH120 - once for each call of a function


class _Lines:
    """Counts the lines that run of files in some folders, and crashes before one of them.

    A trace function that raises is unset, so handlers would run unseen. Then the profile function stops what they call,
    is unset, too, and has set the trace function again.

    Args:
        homes: the folders.
        last: the number of the line, from 1 on; None for none.

    Attributes:
        seen: the lines that have run, by function and number.
        place: the last of them.
    """

    def __init__(self, homes: set[str], last: int | None) -> None:
        self._homes = homes
        self._last = last
        self.seen: set[tuple[str, int]] = set()
        self._is_dead = False
        self.place = ""

    def run(self, function: Callable[..., Any], *given: Any) -> Any:
        """Return the result of a call. Raises _Crashed if it has come to the line."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            result = function(*given)
        finally:
            sys.settrace(before)
            if self._is_dead:
                sys.setprofile(None)
                raise _Crashed
        return result

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if _home(code) not in self._homes:
            return None
        if event == "line" and not self._is_dead and (code.co_qualname, frame.f_lineno) not in self.seen:
            self.seen.add((code.co_qualname, frame.f_lineno))
            self.place = f"line {frame.f_lineno - code.co_firstlineno + 1} of {code.co_name}()"
            self._is_dead = len(self.seen) == self._last
        if self._is_dead:
            sys.setprofile(self._profile)
            raise _Crashed
        return self._trace

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        caller = frame.f_back if event == "call" else frame
        if event in ("call", "c_call") and caller is not None and _home(caller.f_code) in self._homes:
            sys.settrace(self._trace)
            while caller is not None and _home(caller.f_code) in self._homes:
                caller.f_trace = self._trace
                caller = caller.f_back
            raise _Crashed


@dataclass
class _Checked:
    """Runs with crashes between them, each time into a new destination."""

    make: Callable[[Path], Sink]
    read: Read
    epochs: Sequence[Sequence[Any]]
    expected: dict[Time, Counter[str]]
    visible: Visible
    workers: int
    workers_after: int

    def store(self, *crashes: tuple[_Call, int]) -> dict[_Call, int]:
        """Store all epochs, and return the calls of the sink in the last run, with how many lines of it have run."""
        with tempfile.TemporaryDirectory(prefix="tidewheel-", dir=_IN_MEMORY) as scratch:
            folder = Path(scratch, "sink")
            folder.mkdir()
            sink = _Watched(self.make(folder), partial(self._check_whole, folder), crashes)
            for run, crash in enumerate((*crashes, None)):
                sink.begin()
                with suppress(_Crashed):
                    if crash is not None and crash[0].name == "last_committed":
                        sink.last_committed()  # a worker that begins: no job is needed
                    else:
                        self._run(sink, Path(scratch, "snapshots"), self.workers_after if run else self.workers)
                if crash is not None:
                    gc.collect()  # closes what was open at the crash, such as a database that it has locked
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
        """Check that a reader sees only epochs whose commit has begun, and each of them whole."""
        for time, seen in self._found(folder).items():
            if time not in sink.begun:
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
