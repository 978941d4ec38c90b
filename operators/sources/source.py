"""The source operator: it reads a batch of each partition in turn; each partition's token follows its times."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from tidewheel.batches.batches import Batch
from tidewheel.operators.sources.pace import Pace
from tidewheel.operators.sources.partitioned_source import OperatorSource, PartitionedSource, Pause, PlacedSource
from tidewheel.operators.sources.share import Position, open_share
from tidewheel.progress import GraphError, Time
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.ports import OutputPort

Step: TypeAlias = tuple[TimestampToken, Batch] | Pause | None
"""The next step of a partition: a batch to send with a token, some time to wait, or (None) a wait for a probe."""


def source_build(name: str, source: object, paced_by: str | None, epochs_ahead: int) -> Build:
    """Return the build function of ``flow.source(name, source, ...)``; raise GraphError for wrong arguments.

    Args:
        name: the operator's name.
        source: the source, which each worker asks for its partitions or its own build function.
        paced_by: the probe at which earlier epochs must be complete before a later one begins; None for no limit.
        epochs_ahead: how many epochs of a partition may be incomplete at that probe.
    """
    endless = bool(getattr(source, "endless", False))
    if isinstance(source, PartitionedSource):
        return SourceBuild(partial(_build_source, source, paced_by, epochs_ahead), endless)
    kind = type(source).__qualname__  # its attributes may be secret
    if not isinstance(source, OperatorSource):
        raise GraphError(f"source {name!r}: a {kind} has no partitions(worker, workers) to read from")
    if paced_by is not None:
        raise GraphError(f"source {name!r}: a {kind} has no partitions that could be paced by a probe")
    return SourceBuild(source.build, endless)


@dataclass(frozen=True, slots=True)
class SourceBuild:
    """The build function of a source, and whether the source has no end."""

    build: Build
    endless: bool

    def __call__(self, context: OperatorContext) -> Schedule:
        return self.build(context)


def _build_source(
    source: PartitionedSource[Any], paced_by: str | None, epochs_ahead: int, context: OperatorContext
) -> Schedule:
    pace = None if paced_by is None else Pace(partial(context.probe, paced_by), epochs_ahead)
    if paced_by is not None:
        instance_of(context).waits_for = f"probe {paced_by!r}, at which {epochs_ahead} of its epochs are not complete"
    share = open_share(context, partial(_partitions, source), lambda token: token)
    return PartitionReader(context, [_steps(batches, position, pace) for batches, position in share]).schedule


def _partitions(source: PartitionedSource[Any], worker: int, nodes: Sequence[str]) -> Sequence[Iterator[Any]]:
    if isinstance(source, PlacedSource):
        return source.partitions_near(worker, nodes)
    return source.partitions(worker, len(nodes))


def _steps(batches: Iterator[tuple[Time, Batch] | Pause], position: Position, pace: Pace | None) -> Iterator[Step]:
    token: TimestampToken = position.held
    read, sent_before = 0, position.sent
    if sent_before and hasattr(batches, "pass_over"):
        batches.pass_over(sent_before)
        read = sent_before
    for following in batches:
        if isinstance(following, Pause):
            yield following
            continue
        time, batch = _time_and_batch(following)
        read += 1
        if read <= sent_before:
            yield Pause(0)
            continue
        token.downgrade(time)
        while pace is not None and not pace.lets_go_to(time, position.begun):
            yield None
        position.sent = read
        yield token, batch
    position.end()


def _time_and_batch(yielded: object) -> tuple[Time, Batch]:
    if isinstance(yielded, tuple | list) and len(yielded) == 2:
        return yielded[0], yielded[1]
    raise TypeError(
        f"a partition of a source yields (time, batch), or Pause(seconds) while it has nothing, not {yielded!r:.200}"
    )


class PartitionReader:
    """The operator on one worker: it takes one step of each partition in turn."""

    def __init__(
        self, context: OperatorContext, partitions: Iterable[Iterator[Step]], *, discards: bool = False
    ) -> None:
        self._context = context
        self._discards = discards
        self._clock = instance_of(context).clock
        self._waits_until: dict[Iterator[Step], float | None] = dict.fromkeys(partitions, 0.0)
        """When each partition is to be asked again, by the context's clock; None if a probe has to move first."""
        self._alarm = 0.0
        """For when it has asked to be scheduled, by the context's clock."""

    def schedule(self, output: OutputPort) -> None:
        """Send one batch of each partition that has one now."""
        for partition, until in list(self._waits_until.items()):
            if not until or self._clock() >= until:
                self._take_step(partition, output)
        waiting = [until for until in self._waits_until.values() if until is not None]
        if not waiting:
            return  # until a probe moves, if there is a partition left
        now, soonest = self._clock(), min(waiting)
        if soonest <= now:
            self._context.activate()
        elif not now < self._alarm <= soonest:
            self._alarm = soonest
            self._context.activator.after(soonest - now)

    def _take_step(self, partition: Iterator[Step], output: OutputPort) -> None:
        try:
            step = next(partition)
        except StopIteration:
            del self._waits_until[partition]
            return
        if isinstance(step, Pause):
            self._waits_until[partition] = self._clock() + step.seconds
        elif step is None:
            self._waits_until[partition] = None
        else:
            self._waits_until[partition] = 0.0
            output.send(*step)
            if self._discards:
                step[0].discard()
