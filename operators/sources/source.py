"""The source operator: reads partitions, a batch of each in turn, each with a token that follows its times."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from reprlib import repr as shortened
from typing import Any, Final, Generic, TypeVar

from tidewheel.progress import Antichain, GraphError, Time
from tidewheel.runtime import Build, OutputPort, Schedule, TimestampToken
from tidewheel.runtime.description.partitioned_source import OperatorSource, PartitionedSource, Pause, PlacedSource
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.transport.batches import Batch

Record_co = TypeVar("Record_co", covariant=True)

_END: Final = object()
"""What a partition gives behind its last batch; None is nothing that it may yield."""


class Pace:
    """Which epochs a partition may begin, by how many of those that it has begun are not complete at a probe.

    Args:
        frontier: returns the frontier at the probe.
        most: so many epochs at a time.
    """

    def __init__(self, frontier: Callable[[], Antichain], most: int) -> None:
        self._frontier = frontier
        self._most = most
        self._begun: deque[Time] = deque()

    def may_go_to(self, time: Time) -> bool:
        """Tell whether the partition may send at ``time``; if so, it is one of those that have begun."""
        if self._begun and self._begun[-1] == time:
            return True
        if len(self._begun) == self._most:
            frontier = self._frontier()
            self._begun = deque(begun for begun in self._begun if frontier.less_equal(begun))
            if len(self._begun) == self._most:
                return False
        self._begun.append(time)
        return True


class _Partition:
    """One iterator and its token.

    Args:
        number: the partition's number among those of this worker.
        batches: what it has, from its start.
        token: is taken forward to the time of each batch.
        sent: how many batches were sent, by partition; kept up to date. As many are passed over in the beginning.
        clock: returns seconds.
        pace: which epochs may begin; None for all.

    Attributes:
        waits_until: when it is to be asked again, by the context's clock; None if a probe has to move first.
    """

    __slots__ = ("_batches", "_clock", "_held", "_number", "_pace", "_read", "_sent", "_token", "waits_until")

    def __init__(
        self,
        number: int,
        batches: Iterator[tuple[Time, Batch] | Pause],
        token: TimestampToken,
        sent: dict[int, int],
        clock: Callable[[], float],
        pace: Pace | None,
    ) -> None:
        self._number = number
        self._batches = batches
        self._token = token
        self._sent = sent
        self._read = 0
        self._clock = clock
        self._pace = pace
        self._held: tuple[Time, Batch] | None = None
        self.waits_until: float | None = 0.0

    def send_next(self, output: OutputPort) -> bool:
        """Send the next batch if it is there and may be sent; discard the token and return False at the end."""
        if self.waits_until and self._clock() < self.waits_until:
            return True
        following: object = self._held if self._held is not None else next(self._batches, _END)
        if following is _END:
            self._token.discard()
            return False
        if isinstance(following, Pause):
            self.waits_until = self._clock() + following.seconds
            return True
        time, batch = _time_and_batch(following)
        if self._read < self._sent.get(self._number, 0):
            self._read += 1
            return True
        self._token.downgrade(time)
        if self._pace is not None and not self._pace.may_go_to(time):
            self._held, self.waits_until = (time, batch), None
            return True
        self._held, self.waits_until = None, 0.0
        output.send(self._token, batch)
        self._read += 1
        self._sent[self._number] = self._read
        return True

    def close(self) -> None:
        """Close the iterator if it can be closed, as a generator with an open file can."""
        if hasattr(self._batches, "close"):
            self._batches.close()


def _time_and_batch(yielded: object) -> tuple[Time, Batch]:
    """Return what a partition has yielded, taken apart; raise TypeError if it is something else."""
    if isinstance(yielded, tuple | list) and len(yielded) == 2:
        return yielded[0], yielded[1]
    raise TypeError(
        f"a partition of a source yields (time, batch), or Pause(seconds) while it has nothing, not {yielded!r:.200}"
    )


def source_build(name: str, source: object, paced_by: str | None, epochs_ahead: int) -> Build:
    """Return the build function of ``flow.source(name, source, ...)``; raise GraphError if that makes no sense."""
    if not isinstance(epochs_ahead, int) or epochs_ahead < 1:
        raise GraphError(
            f"source {name!r}: epochs_ahead is how many epochs there may be, 1 or more, not {epochs_ahead!r}"
        )
    if isinstance(source, PartitionedSource):
        return build_source(source, paced_by, epochs_ahead)
    if not isinstance(source, OperatorSource):
        raise GraphError(f"source {name!r}: {source!r} has no partitions(worker, workers) to read from")
    if paced_by is not None:
        raise GraphError(f"source {name!r}: {source!r} has no partitions that could be paced by a probe")
    return source.build


def build_source(source: PartitionedSource[Any], paced_by: str | None = None, epochs_ahead: int = 1) -> Build:
    """Return the build function of an operator that sends what ``source`` has, one batch a partition and step.

    Args:
        source: is asked for its partitions on each worker.
        paced_by: the probe at which epochs have to be complete before later ones begin; None for no such limit.
        epochs_ahead: how many epochs of a partition may be incomplete there at a time.
    """

    def build(context: OperatorContext) -> Schedule:
        def pace() -> Pace | None:
            return None if paced_by is None else Pace(partial(context.probe, paced_by), epochs_ahead)

        with context.token() as token:
            opened = _opened(source, context)
            sent: dict[int, int] = context.state("sent", dict)
            partitions = [
                _Partition(number, iter(batches), token.clone(), sent, instance_of(context).clock, pace())
                for number, batches in enumerate(opened)
            ]
        reader = _Reader(context, partitions)
        context.on_close(reader.close)
        return reader.schedule

    return build


def _opened(source: PartitionedSource[Any], context: OperatorContext) -> Sequence[Iterator[tuple[Time, Any] | Pause]]:
    """Return the partitions of this worker."""
    if isinstance(source, PlacedSource):
        return source.partitions_near(context.worker, context.nodes)
    return source.partitions(context.worker, context.workers)


class _Reader:
    """One worker's share of a source."""

    def __init__(self, context: OperatorContext, partitions: list[_Partition]) -> None:
        self._context = context
        self._partitions = partitions
        self._alarm = 0.0
        """For when it has asked to be scheduled, by the context's clock."""

    def schedule(self, output: OutputPort) -> None:
        """Send one batch of each partition that has one now."""
        self._partitions = [partition for partition in self._partitions if partition.send_next(output)]
        waiting = [partition.waits_until for partition in self._partitions if partition.waits_until is not None]
        if not waiting:
            return  # until a probe moves, if there is a partition left
        now, soonest = instance_of(self._context).clock(), min(waiting)
        if soonest <= now:
            self._context.activate()
        elif not now < self._alarm <= soonest:
            self._alarm = soonest
            self._context.activator.after(soonest - now)

    def close(self) -> None:
        """Close what is open."""
        for partition in self._partitions:
            partition.close()


class IterableSource(Generic[Record_co]):
    """A source over batches at hand: worker ``i`` reads partitions ``i``, ``i + workers`` and so on.

    Args:
        partitions: for each partition its (time, batch), in order of times.

    Raises:
        GraphError: it is something else.

    >>> from tidewheel import Dataflow, run
    >>> flow = Dataflow("squares")
    >>> _ = flow.source("numbers", IterableSource([[(0, [1, 2]), (1, [3])]])).map(lambda n: n * n).capture("squares")
    >>> with run(flow, engine="local") as job:
    ...     job.wait()
    ...     [(batch.time, batch.batch) for batch in job.captured("squares")]
    [(0, [1, 4]), (1, [9])]
    """

    def __init__(self, partitions: Sequence[Sequence[tuple[Any, Iterable[Record_co]]]]) -> None:
        given: Any = partitions
        for partition in given if isinstance(given, list | tuple) else [given]:
            first = partition[0] if isinstance(partition, list | tuple) and partition else None
            if not isinstance(partition, Iterable) or not (first is None or isinstance(first, tuple | Pause)):
                raise GraphError(
                    "IterableSource takes a list of partitions, each a list of (time, batch), such as "
                    f"[[(0, [1, 2]), (1, [3])]], not {shortened(given)}. For plain records use RecordSource"
                )
        self._partitions = partitions

    def partitions(self, worker: int, workers: int) -> list[Iterator[tuple[Time, Iterable[Record_co]]]]:
        """Return this worker's partitions."""
        return [iter(partition) for partition in self._partitions[worker::workers]]
