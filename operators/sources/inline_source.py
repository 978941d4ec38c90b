"""Sources that a worker reads on its own thread, since they never block: records in memory, ticks, recordings.

So the results of a local job depend only on its input. The number of workers with which a job begins determines the
partitions, so each worker lists them by itself.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

from tidewheel.operators.base.division import Division
from tidewheel.operators.sources.contract import Fetched, Partition, Pause, Record_co, Source, as_fetched, saves
from tidewheel.operators.sources.dealing import reader_of
from tidewheel.operators.sources.dealt_partition import DealtPartition
from tidewheel.operators.sources.pace import Pace
from tidewheel.operators.sources.saved_positions import SavedPositions
from tidewheel.progress import Time, TimeDomain
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.errors import SnapshotError
from tidewheel.runtime.tokens.token_set import TokenSet
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of, instance_of
from tidewheel.runtime.worker.ports import OutputPort


class InlineSource(Source[Record_co]):
    """A source that a worker reads on its own thread, with epochs of its own.

    `saved` is called on that thread, too. In a job without snapshots it is called when a batch is sent, since such a
    job is never continued.
    """

    says_epochs = True
    waits_for: str = ""
    """A description of what the source waits for, for `Job.explain`; empty if it does not wait."""
    at_once: ClassVar[int] = 1
    """How many batches of a partition the worker takes in a row."""

    @abstractmethod
    def partitions_of(self, workers: int) -> list[Partition]:
        """Return the partitions for a job that begins with so many workers; always the same."""

    def partitions(self) -> list[Partition]:
        """Return the partitions for one worker."""
        return self.partitions_of(1)

    @property
    def is_woken(self) -> bool:
        """True if a pausing partition calls ``wake`` when it has more; otherwise a pause ends after its time."""
        return False

    def read(self, partition: Partition, position: Any, wake: Callable[[], object]) -> Iterator[Any]:
        """Open a partition; until it is closed, the partition may call ``wake``, on any thread, when it has more."""
        return iter(self.open(partition, position))

    def on_nodes(self, nodes: Sequence[str]) -> Self:
        """Return the source for workers on these Ray nodes; "" stands for a worker without a fixed node."""
        return self

    def in_domain(self, domain: TimeDomain) -> Self:
        """Return the source for a dataflow with these times."""
        return self


def share_names(workers: int) -> list[Partition]:
    """Return the names of partitions for the shares of workers, such as "0/2" and "1/2"."""
    return [f"{worker}/{workers}" for worker in range(workers)]


def share_of(partition: Partition) -> tuple[int, int]:
    """Return the worker and the number of workers from the name of a share."""
    worker, workers = map(int, str(partition).split("/"))
    return worker, workers


def fetched_behind(position: int | None, batches: Iterable[tuple[Time, Any]]) -> Iterator[Fetched[Any]]:
    """Yield the batches after a position, a number of batches; ``batches`` must always be the same."""
    for number, (time, batch) in enumerate(batches, start=1):
        if position is None or number > position:
            yield Fetched(batch, number, time)


@dataclass(slots=True)
class _Shares:
    """The partitions of one worker, including ended ones.

    Attributes:
        workers: the number of workers with which the job began.
    """

    workers: int
    partitions: dict[Partition, DealtPartition]

    def split(self, workers: int) -> "list[_Shares]":
        parts = [_Shares(self.workers, {}) for _ in range(workers)]
        for name, one in self.partitions.items():
            parts[reader_of(one.number, workers)].partitions[name] = one
        return parts

    def merge(self, other: "_Shares") -> "_Shares":
        return _Shares(self.workers, self.partitions | other.partitions)


@dataclass(frozen=True, slots=True)
class InlineBuild:
    """The build function of the operator of an inline source."""

    source: InlineSource[Any]
    paced_by: str | None
    epochs_ahead: int

    @property
    def endless(self) -> bool:
        """True if the source has no end."""
        return self.source.endless

    def __call__(self, context: OperatorContext) -> Schedule:
        """Return this worker's schedule function."""
        return _InlineReader(context, self).schedule


class _InlineReader:
    """The operator on one worker, which reads its partitions in turn."""

    def __init__(self, context: OperatorContext, build: InlineBuild) -> None:
        self._context = context
        self._source = build.source.on_nodes(context.nodes)
        self._clock = instance_of(context).clock
        self._pace = None
        if build.paced_by is not None:
            self._pace = Pace(partial(context.probe, build.paced_by), build.epochs_ahead)
            instance_of(context).waits_for = self._pace.describe(build.paced_by)
        elif build.source.waits_for:
            instance_of(context).waits_for = build.source.waits_for
        self._iterators: dict[Partition, Iterator[Any]] = {}
        self._in_hand: dict[Partition, Fetched[Any]] = {}
        self._waits_until: dict[Partition, float] = {}
        self._alarm = 0.0
        self._is_woken = build.source.is_woken
        self._saving, self._waiting = host_of(context).saving, SavedPositions()
        self._saves = saves(build.source)
        self._partitions = self._dealt()
        for name, dealt in self._partitions.items():
            if dealt.tokens:
                self._iterators[name] = iterator = self._source.read(name, dealt.position, context.activator)
                if hasattr(iterator, "close"):
                    context.on_close(iterator.close)
        if self._iterators and self._saves:
            self._saving.follow(instance_of(context).number)

    def _dealt(self) -> dict[Partition, DealtPartition]:
        context = self._context

        def first() -> _Shares:
            with context.token() as token:
                own = self._own(context.workers)
                return _Shares(
                    context.workers, {name: DealtPartition(n, TokenSet([token.clone()])) for name, n in own.items()}
                )

        shares = Division(_Shares.split, _Shares.merge).state(context, "partitions", first)
        there, had = list(self._own(shares.workers)), sorted(shares.partitions.items(), key=lambda item: item[1].number)
        if there != [name for name, _ in had]:
            raise SnapshotError(
                f"operator {context.name!r} cannot go on: on worker {context.worker} its source has {len(there)} "
                f"partitions, and in the snapshot it has {len(had)}, or others. Give it the source it had"
            )
        return dict(had)

    def _own(self, workers: int) -> dict[Partition, int]:
        names = self._source.partitions_of(workers)
        here = self._context.worker, self._context.workers
        return {name: number for number, name in enumerate(names) if reader_of(number, here[1]) == here[0]}

    def schedule(self, output: OutputPort) -> None:
        """Send one batch of each partition that has one now."""
        self._save()
        if self._is_woken:
            self._waits_until.clear()
        for name in list(self._iterators):
            if name in self._in_hand or self._clock() >= self._waits_until.get(name, 0.0):
                for _ in range(self._source.at_once):
                    if not self._take_step(name, output):
                        break
        now_s = self._clock()
        waits = [self._waits_until.get(name, 0.0) for name in self._iterators if name not in self._in_hand]
        if not waits:
            return  # until a probe moves, if there is a partition left
        soonest_s = min(waits)
        if soonest_s <= now_s:
            self._context.activate()
        elif self._is_woken:
            self._context.expect_activation()
        elif not now_s < self._alarm <= soonest_s:
            self._alarm = soonest_s
            self._context.activator.after(soonest_s - now_s)

    def _take_step(self, name: Partition, output: OutputPort) -> bool:
        """Send a batch of a partition; return False if there is none now."""
        dealt = self._partitions[name]
        fetched = self._in_hand.pop(name, None)
        if fetched is None:
            try:
                yielded = next(self._iterators[name])
            except StopIteration:
                del self._iterators[name]
                dealt.tokens.discard()
                return False
            if isinstance(yielded, Pause):
                self._waits_until[name] = self._clock() + yielded.seconds
                return False
            fetched = as_fetched(self._source, name, yielded)
        if not dealt.send_said(fetched, output, self._pace):
            self._in_hand[name] = fetched
            return False
        if self._saves and self._saving.are_taken:
            self._waiting.note(name, self._saving.number, fetched.position)
        elif self._saves:
            self._source.saved(name, fetched.position)
        return True

    def _save(self) -> None:
        saved = self._saving.saved
        for name, position in self._waiting.take(lambda mark: mark < saved).items():
            self._source.saved(name, position)
