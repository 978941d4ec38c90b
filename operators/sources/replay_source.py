"""A source that replays a recorded stream, at the same times."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tidewheel.operators.sinks.recording import (
    LoggedFrontier,
    read_frontier,
    read_header,
    read_recording,
    recording_path,
)
from tidewheel.operators.sources.partitioned_source import OperatorSource
from tidewheel.operators.sources.share import Position, open_share, take_forward
from tidewheel.operators.sources.source import PartitionReader, Step
from tidewheel.progress import Antichain, GraphError, Time, TimeDomain
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.engines.captured import Captured, CapturedBatches
from tidewheel.runtime.tokens.token_set import TokenSet
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.storage.store_url import local_path

Event = Captured | LoggedFrontier
"""The content of a recording: batches, and between them the times that can still come."""


class ReplaySource(OperatorSource[Any]):
    """A source of a recording: the same batches at the same times, on any number of workers.

    Recorded times of a loop need a dataflow with that domain of times. Each log, or each worker's share of a list, is
    replayed in its own order. Times complete in the recorded order, as early as the other logs allow.

    Args:
        recording: the folder of ``stream.capture_to(folder)``, which all nodes must see, or the result of
            ``job.captured(name)``.
        partial: whether to replay the complete times of a recording whose job was stopped or failed; otherwise it is
            refused.

    Raises:
        GraphError: the recording or a part of it is missing, it was cut short, or is damaged.

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

    def build(self, context: OperatorContext) -> Schedule:
        """Return this worker's schedule function: each step sends one batch of each of its recordings."""
        domain = instance_of(context).outputs[0].domain
        share = open_share(
            context,
            lambda worker, nodes: self._recordings(worker, len(nodes), domain),
            lambda token: TokenSet([token]),
        )
        players = [_steps(events, position) for events, position in share]
        return PartitionReader(context, players, discards=True).schedule

    def _recordings(self, worker: int, workers: int, domain: TimeDomain) -> list[Iterator[Event]]:
        if self._captured is not None:
            return [_events_of(self._captured[worker::workers], domain)]
        ends = [Antichain(domain, end) for end in self._ends]
        return [_complete(read_recording(log), ends) for log in self._logs[worker::workers]]


def _steps(events: Iterator[Event], position: Position) -> Iterator[Step]:
    tokens: TokenSet = position.held
    read, sent_before = 0, position.sent
    for event in events:
        if not isinstance(event, LoggedFrontier):
            read += 1
            if read > sent_before:
                position.sent = read
                yield tokens.delayed(event.time), event.batch
        elif read >= sent_before:
            take_forward(tokens, event.times)
    position.end()


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
    """Yield the events of complete times, given the incomplete ones of each log."""
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
