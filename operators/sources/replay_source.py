"""A source that replays a recorded stream, at the same times."""

import os
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from tidewheel.operators.sinks.recording import (
    LoggedFrontier,
    read_frontier,
    read_header,
    read_recording,
    recording_path,
)
from tidewheel.operators.sources.contract import Fetched, Partition
from tidewheel.operators.sources.inline_source import InlineSource, share_names, share_of
from tidewheel.progress import Antichain, GraphError, IntegerDomain, Time, TimeDomain
from tidewheel.runtime.engines.captured import Captured, CapturedBatches
from tidewheel.storage.store_url import local_path

Event = Captured | LoggedFrontier
"""An item of a recording: a batch, or the least times that can still come."""


class ReplaySource(InlineSource[Any]):
    """A source that replays a recording: the same batches at the same times, on any number of workers.

    To replay a stream recorded in a loop, the dataflow needs the loop's domain of times. Each log, or each worker's
    share of a list, is replayed in its own order. Times complete in the recorded order, as early as the other logs
    allow.

    Args:
        recording: the folder of ``stream.capture_to(folder)``, which all nodes must see, or the result of
            ``job.captured(name)``.
        partial: True to accept a recording of a stopped or failed job, and replay only its complete times.

    Raises:
        GraphError: the recording or a part of it is missing, cut short, or damaged.

    >>> import tempfile
    >>> import tidewheel as tw
    >>> words = tw.RecordSource(["to", "be"], batch_size=1, epoch_every=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     flow = tw.Dataflow("recording")
    ...     _ = flow.source("words", words).capture_to(folder)
    ...     with tw.run(flow, engine="local") as job:
    ...         job.wait()
    ...     again = tw.Dataflow("again")
    ...     _ = again.source("words", ReplaySource(folder)).map(str.upper).capture("loud")
    ...     with tw.run(again, workers=2, engine="local") as job:
    ...         job.wait()
    ...         job.captured("loud")
    [Captured(time=0, batch=['TO']), Captured(time=1, batch=['BE'])]
    """

    def __init__(self, recording: str | os.PathLike[str] | Sequence[Captured], *, partial: bool = False) -> None:
        self._domain: TimeDomain = IntegerDomain()
        self._captured: list[Captured] | None = None
        self._logs: list[Path] = []
        self._ends: list[tuple[Time, ...]] = []
        if isinstance(recording, str | os.PathLike):
            folder = local_path(recording, "ReplaySource: a folder", GraphError).absolute()
            try:
                self._logs = _logs_in(folder)
                self._ends = [_end_of(log) for log in self._logs]
            except (OSError, ValueError) as error:
                text = f"ReplaySource: there is no recording in {os.fspath(recording)!r} that can be played: {error}"
                raise GraphError(text) from error
            if any(self._ends) and not partial:
                raise GraphError(
                    f"ReplaySource: the recording in {os.fspath(recording)!r} was cut short, since its job did not "
                    "complete: ReplaySource(..., partial=True) plays what was complete"
                )
        elif isinstance(recording, list | tuple | CapturedBatches) and all(
            isinstance(one, Captured) for one in recording
        ):
            self._captured = list(recording)
        else:
            raise GraphError(
                f"ReplaySource plays a folder of capture_to, or a list of Captured, not {type(recording).__qualname__}"
            )

    def in_domain(self, domain: TimeDomain) -> "ReplaySource":
        """Return the source for a dataflow with these times."""
        bound = copy(self)
        bound._domain = domain
        return bound

    def partitions_of(self, workers: int) -> list[Partition]:
        """Return one partition for each log, or for each worker."""
        if self._captured is not None:
            return share_names(workers)
        return list(range(len(self._logs)))

    def open(self, partition: Partition, position: int | None) -> Iterator[Fetched[Any]]:
        """Replay a partition; the position is a number of events."""
        return _fetched(self._events(partition), position or 0, self._domain.minimum())

    def _events(self, partition: Partition) -> Iterator[Event]:
        if self._captured is not None:
            worker, workers = share_of(partition)
            return _events_of(self._captured[worker::workers], self._domain)
        ends = [Antichain(self._domain, end) for end in self._ends]
        return _complete(read_recording(self._logs[int(partition)]), ends)


def _fetched(events: Iterator[Event], position: int, least: Time) -> Iterator[Fetched[Any]]:
    frontier: tuple[Time, ...] = (least,)
    for number, event in enumerate(events):
        if isinstance(event, LoggedFrontier):
            frontier = tuple(event.times)
        elif number >= position:
            yield Fetched(event.batch, number + 1, event.time, frontier=frontier)


def _logs_in(folder: Path) -> list[Path]:
    first = read_header(recording_path(folder, 0))
    logs = [recording_path(folder, worker) for worker in range(first.workers)]
    if any((header.run, header.workers) != (first.run, first.workers) for header in map(read_header, logs)):
        raise ValueError("the logs are of several runs: record it again")
    return logs


def _end_of(log: Path) -> tuple[Time, ...]:
    last = read_frontier(log)
    if last is None:
        raise ValueError(f"{log} was cut short before its job began to run")
    return last.times


def _complete(events: Iterator[Event], ends: list[Antichain]) -> Iterator[Event]:
    """Yield the events of complete times; ``ends`` has the frontier at the end of each log."""
    for event in events:
        if isinstance(event, LoggedFrontier) or not any(end.less_equal(event.time) for end in ends):
            yield event


def _events_of(captured: list[Captured], domain: TimeDomain) -> Iterator[Event]:
    frontiers: list[tuple[Time, ...]] = []
    frontier = Antichain(domain)
    for one in reversed(captured):
        if not frontier.less_equal(one.time):
            frontier = Antichain(domain, [*frontier, one.time])
        frontiers.append(tuple(frontier))
    before: tuple[Time, ...] | None = None
    for one in captured:
        times = frontiers.pop()
        if times != before:
            yield LoggedFrontier(times)
            before = times
        yield one
