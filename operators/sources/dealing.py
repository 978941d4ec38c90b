"""The assignment ("dealing") of partitions to workers.

Each partition has a number, and worker ``number % workers`` reads it. So after a change of the number of workers, the
partition's number still determines its reader, also for deals in flight.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidewheel.batches.batches import Batch
from tidewheel.operators.sources.contract import Partition
from tidewheel.runtime.description.pacts import Pact


class Deal(NamedTuple):
    """The assignment of a partition to a worker, sent as a record."""

    number: int
    partition: Partition


def reader_of(number: int, workers: int) -> int:
    """Return the worker that reads the partition with this number."""
    return number % workers


class DealPact(Pact):
    """Sends each deal to the worker that will read the partition.

    >>> DealPact().split([Deal(0, "tides"), Deal(3, "winds")], 2)
    [[Deal(number=0, partition='tides')], [Deal(number=3, partition='winds')]]
    """

    __slots__ = ()

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return each worker's deals."""
        parts: list[list[Deal]] = [[] for _ in range(workers)]
        for deal in batch:
            parts[reader_of(deal.number, workers)].append(deal)
        return [part or None for part in parts]


@dataclass(slots=True)
class Dealing:
    """The partitions that were dealt to workers, with their numbers.

    >>> dealing = Dealing()
    >>> dealing.deal(["a", "b", "c"], set(), workers=2)
    [Deal(number=0, partition='a'), Deal(number=1, partition='b'), Deal(number=2, partition='c')]
    >>> dealing.deal(["a", "b", "c", "d"], {"a", "c"}, workers=2)
    [Deal(number=4, partition='d')]
    """

    numbers: dict[Partition, int] = field(default_factory=dict)
    has_listed: bool = False
    """Whether the partitions were listed at least once."""
    _next: int = 0

    def deal(self, listed: Iterable[Partition], ended: set[Partition], workers: int) -> list[Deal]:
        """Return deals for new partitions in ``listed``; raise TypeError for a name that is not a string or integer.

        Each new partition goes to the worker with the fewest open partitions. Partitions that have ended and are not
        listed any more are forgotten, and removed from ``ended``.
        """
        names = list(listed)
        for name in names:
            if not isinstance(name, str | int) or isinstance(name, bool):
                raise TypeError(f"partitions() returns names of partitions, strings or integers, not {name!r:.200}")
        there = set(names)
        for gone in [name for name in self.numbers if name in ended and name not in there]:
            del self.numbers[gone]
            ended.discard(gone)
        loads = Counter(dict.fromkeys(range(workers), 0))
        loads.update(reader_of(number, workers) for name, number in self.numbers.items() if name not in ended)
        deals: list[Deal] = []
        for name in dict.fromkeys(names):
            if name not in self.numbers:
                worker = min(range(workers), key=lambda one: (loads[one], (one - self._next) % workers))
                loads[worker] += 1
                number = self._next + (worker - self._next) % workers
                self._next = number + 1
                self.numbers[name] = number
                deals.append(Deal(number, name))
        return deals

    def merge(self, other: "Dealing") -> "Dealing":
        """Merge two dealings; only worker 0 has dealt any partitions."""
        return self if self.has_listed or self.numbers else other
