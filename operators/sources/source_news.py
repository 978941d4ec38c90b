"""The news that readers of a source send to all workers: a partition has begun an epoch, or has ended.

News are messages: each arrives at every worker soon, and until then each snapshot contains it. A change of token
counts, in contrast, may be held back if it moves no frontier.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tidewheel.operators.base.division import at_first
from tidewheel.operators.sources.contract import Partition
from tidewheel.operators.sources.partition_epochs import later
from tidewheel.progress import Time
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of
from tidewheel.runtime.worker.ports import InputPort


class EpochBegan(NamedTuple):
    """A partition has begun an epoch."""

    epoch: Time


class PartitionEnded(NamedTuple):
    """The iterator of a partition has ended."""

    partition: Partition


News: TypeAlias = EpochBegan | PartitionEnded


@dataclass(slots=True)
class SourceNews:
    """A worker's knowledge of a source, from the source's news.

    Attributes:
        latest: the latest epoch that any partition has begun; None before the first news.
        ended: on worker 0, the partitions that have ended, until their names may be used again.
        wake: functions to call when news arrive.
    """

    latest: Time = None
    ended: set[Partition] = field(default_factory=set)
    wake: list[Callable[[], object]] = field(default_factory=list)

    def hear_of(self, epoch: Time) -> bool:
        """Record an epoch; return whether it is later than all earlier ones."""
        if self.latest is not None and later(self.latest, epoch) == self.latest:
            return False
        self.latest = epoch
        for wake in self.wake:
            wake()
        return True


def news_of(context: OperatorContext, name: str) -> SourceNews:
    """Return the news that the operators of the source ``name`` share on one worker."""
    found: SourceNews = host_of(context).shared.setdefault(f"news of {name}", SourceNews())
    return found


@dataclass(frozen=True, slots=True)
class NewsBuild:
    """The build function of the operator that receives `News` on each worker and records it in `SourceNews`."""

    name: str
    is_aside: bool = True

    def __call__(self, context: OperatorContext) -> Schedule:
        """Return this worker's schedule function."""
        news = news_of(context, self.name)
        news.ended = at_first(set.union).state(context, "ended", set)
        is_first = context.worker == 0

        def schedule(input: InputPort) -> None:
            for _, batch in input:
                for one in batch:
                    if isinstance(one, EpochBegan):
                        news.hear_of(one.epoch)
                    elif is_first:
                        news.ended.add(one.partition)
                        for wake in news.wake:
                            wake()

        return schedule
