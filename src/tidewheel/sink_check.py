"""The check of a sink: a job crashes at its calls and between its lines, and each epoch is stored once all the same."""

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
from types import FrameType
from typing import Any, Literal, TypeAlias

from tidewheel.operators.dataflow import Dataflow
from tidewheel.operators.sinks.sink import Sink
from tidewheel.progress import Time
from tidewheel.runtime.engines.job import Job
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.engines.run import run
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.snapshots.snapshots import Snapshots
from tidewheel.transport.batches import Batch, records

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
    sink or, in the last epoch, before a line of the sink's own file. Then the job goes on with another object, from its
    last snapshot or from its beginning. A power failure is not tried: call fsync, or let a database do so.

    Args:
        make: ``make(folder)`` returns a sink with an empty destination. The folder is new and empty. A destination
            elsewhere can have its name, which is like no other.
        read: ``read(folder)`` returns the records of each epoch as a reader of the destination sees them.
        epochs: the records of each epoch, from time 0 on, such that ``repr`` tells them apart.
        workers: how many workers there are before the crash.
        workers_after: how many there are after it.

    Raises:
        AssertionError: the sink breaks its contract; it says how, and at which call the job had crashed.
    """
    expected = {time: Counter(map(repr, part)) for time, part in enumerate(epochs) if part}
    log = logging.getLogger(Job.__module__)
    log.addFilter(_is_real)
    try:
        for visible in ("snapshot", "epoch"):
            checked = _Checked(make, read, epochs, expected, visible)
            calls = checked.store(None, [workers])
            for number, call in enumerate(calls):
                lines = call.lines if visible == "snapshot" and call.epoch == max(expected) else 0
                for moment in (*range(1 + lines), _AFTER):
                    checked.store((number, moment), [workers, workers_after])
    finally:
        log.removeFilter(_is_real)


def _is_real(record: logging.LogRecord) -> bool:
    """Tell whether a failure of a job is not one of ours."""
    return _Crashed.__name__ not in record.getMessage()


class _Crashed(BaseException):
    """The process of the job has died, as it were."""


@dataclass(slots=True)
class _Call:
    """One call of the sink: what it was, how many lines it has reached for the first time, and the last of them."""

    name: str
    epoch: Time
    lines: int = 0
    place: str = ""


class _Watched(Sink):
    """Notes the calls of a sink, and crashes at one.

    Workers that prepare have another object than the one that commits.

    Args:
        sink: the sink.
        look: called after something is prepared in a run without a crash.
        crash: the number of the call, and the line in it before which it crashes: 0 for none, and `_AFTER` for all.
    """

    def __init__(self, sink: Sink, look: Callable[["_Watched"], None], crash: tuple[int, int] | None) -> None:
        methods = [getattr(type(sink), name) for name in ("prepare", "commit")]
        self._files = {one.__code__.co_filename for one in methods if one is not Sink.prepare}
        self._packed = pickle.dumps(sink)
        self._look = look
        self._crash = crash
        self.calls: list[_Call] = []
        self.parts: dict[Time, list[Any]] = {}
        self.begun: list[Time] = []
        self.committed: list[Time] = []
        self.begin()

    def begin(self) -> None:
        """Make the objects again, as after a crash."""
        self._preparing, self.committing = (pickle.loads(self._packed) for _ in range(2))  # noqa: S301 - its own

    def prepare(self, epoch: Time, records: Batch) -> Any:
        """Call it."""
        part = self._called("prepare", self._preparing.prepare, epoch, records)
        if self._crash is None:
            self._look(self)
        return pickle.loads(pickle.dumps(part))  # noqa: S301 - its own

    def commit(self, epoch: Time, parts: list[Any]) -> None:
        """Call it."""
        self.parts[epoch] = list(parts)
        self.begun.append(epoch)
        self._called("commit", self.committing.commit, epoch, parts)

    def last_committed(self) -> Time | None:
        """Call it, and compare what it returns with the commits."""
        found: Time | None = self.committing.last_committed()
        known = self.committed[-1] if self.committed else None
        if found != known and found not in self.begun[len(self.committed) :]:
            raise AssertionError(f"last_committed() returns {found!r} {self.state()}")
        return found

    def state(self) -> str:
        """Say which commits there were, and where the job has crashed."""
        commits = f"after commit({self.committed[-1]!r}) has returned" if self.committed else "before any commit"
        return commits + self.place()

    def place(self) -> str:
        """Say where the job has crashed; nothing if it has not."""
        if self._crash is None or self._crash[0] >= len(self.calls):
            return ""
        call, line = self.calls[self._crash[0]], self._crash[1]
        moment = {0: "before", _AFTER: "after"}.get(line, f"before {call.place} in")
        return f", with a crash {moment} {call.name}({call.epoch!r})"

    def _called(self, name: str, function: Callable[..., Any], epoch: Time, given: Any) -> Any:
        number, call = len(self.calls), _Call(name, epoch)
        self.calls.append(call)
        line = self._crash[1] if self._crash is not None and self._crash[0] == number else None
        if line == 0:
            raise _Crashed
        seen: set[tuple[str, int]] = set()

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            if frame.f_code.co_filename not in self._files:
                return None
            if event == "line" and (place := (frame.f_code.co_qualname, frame.f_lineno)) not in seen:
                seen.add(place)
                call.place = f"line {frame.f_lineno - frame.f_code.co_firstlineno + 1} of {frame.f_code.co_name}()"
                if len(seen) == line:
                    raise _Crashed
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            result = function(epoch, given)
        finally:
            sys.settrace(before)
            call.lines = len(seen)
        if name == "commit":
            self.committed.append(epoch)
        if line == _AFTER:
            raise _Crashed
        return result


@dataclass
class _Checked:
    """One run, or two with a crash between them, into a new destination."""

    make: Callable[[Path], Sink]
    read: Read
    epochs: Sequence[Sequence[Any]]
    expected: dict[Time, Counter[str]]
    visible: Visible

    def store(self, crash: tuple[int, int] | None, workers: Sequence[int]) -> list[_Call]:
        """Store all epochs, and return the calls of the sink."""
        with tempfile.TemporaryDirectory(prefix="tidewheel-", dir=_IN_MEMORY) as scratch:
            folder = Path(scratch, "sink")
            folder.mkdir()
            sink = _Watched(self.make(folder), partial(self._check_whole, folder), crash)
            for number in workers:
                sink.begin()
                with suppress(_Crashed):
                    self._run(sink, Path(scratch, "snapshots"), number)
                self._check_whole(folder, sink)
            self._check_all(folder, sink, "")
            for time, parts in sink.parts.items():
                sink.begin()
                sink.last_committed()
                sink.committing.commit(time, parts)
                self._check_all(folder, sink, f"commit({time!r}) was called again, and has to do nothing: ")
            sink.begin()
            sink.last_committed()
            return sink.calls

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
