"""The pacts that spread records over workers without looking at the records; `Exchange` is the one that looks."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from tidewheel.runtime.description.stable_hash import stable_hash
from tidewheel.runtime.substreams.labels import Labels, MixedLabel, divide_by_owner, parts_by_key
from tidewheel.transport.batches import Batch, length, take_slice


class Pact(ABC):
    """Says what each worker gets of a batch that goes over an edge."""

    __slots__ = ()

    takes_marks: ClassVar[bool] = False
    """Whether marks of the ends of substreams go over the edge, among the records."""

    @abstractmethod
    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return one part for each worker, None where a worker gets nothing; the batch is not empty."""

    def labelled_parts(
        self, batch: Batch, workers: int, label: Labels | None
    ) -> Iterable[tuple[int, Batch, Labels | None]]:
        """Yield (worker, part, label of the part) for a batch of substreams, or of none."""
        if not isinstance(label, MixedLabel):
            parts = self.split(batch, workers)
            yield from ((worker, part, label) for worker, part in enumerate(parts) if part is not None)
            return
        for key, rows in parts_by_key(batch, label.keys):
            parts = self.split(rows, workers)
            yield from ((n, part, (label.declaration, key)) for n, part in enumerate(parts) if part is not None)

    def describe(self) -> str:
        """Return for people how records are spread, such as ``broadcast``: by default the name of the class."""
        return type(self).__name__.removesuffix("Pact").lower()

    def for_worker(self, worker: int) -> "Pact":
        """Return the pact by which ``worker`` sends over one edge: another one if it remembers what was sent."""
        return self


@dataclass(frozen=True, slots=True)
class BroadcastPact(Pact):
    """Gives each worker all records: the batch itself, as one message for each.

    >>> BroadcastPact().split(["a", "b"], 2)
    [['a', 'b'], ['a', 'b']]
    """

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return the batch once for each worker."""
        return [batch] * workers

    def labelled_parts(
        self, batch: Batch, workers: int, label: Labels | None
    ) -> Iterable[tuple[int, Batch, Labels | None]]:
        """Give each worker all."""
        return [(worker, batch, label) for worker in range(workers)]


@dataclass(frozen=True, slots=True)
class SubstreamPact(Pact):
    """Gives one worker all records of a substream."""

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Give what is of no substream to worker 0."""
        return [batch, *[None] * (workers - 1)]

    def labelled_parts(
        self, batch: Batch, workers: int, label: Labels | None
    ) -> Iterable[tuple[int, Batch, Labels | None]]:
        """Give each record to the worker that owns its key."""
        if workers == 1 and label is not None:  # as with several, find out whether it can be hashed
            stable_hash(next(iter(label.distinct)) if isinstance(label, MixedLabel) else label[1])
        if isinstance(label, MixedLabel) and workers > 1:
            owner = {key: stable_hash(key) % workers for key in label.distinct}
            return divide_by_owner(batch, label, [owner[key] for key in label.keys], workers)
        return [(0 if label is None or workers == 1 else stable_hash(label[1]) % workers, batch, label)]  # type: ignore[index]


class RebalancePact(Pact):
    """Gives all workers equal shares, in slices of the batches: what one worker sends to each differs by one record.

    It remembers whose turn it is for what cannot be divided, so that small batches are spread evenly too.

    Args:
        turn: the worker that is to get the first record that is left over.

    >>> pact = RebalancePact()
    >>> pact.split([1, 2, 3], 2), pact.split([4], 2), pact.split([5], 2)
    ([[1, 2], [3]], [None, [4]], [[5], None])
    """

    __slots__ = ("_turn",)

    def __init__(self, turn: int = 0) -> None:
        self._turn = turn

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return consecutive slices whose lengths differ by one at most; Arrow and NumPy are not copied."""
        count = length(batch)
        each, left_over = divmod(count, workers)
        parts: list[Batch | None] = []
        start = 0
        for worker in range(workers):
            stop = start + each + ((worker - self._turn) % workers < left_over)
            parts.append(take_slice(batch, start, stop) if stop > start else None)
            start = stop
        self._turn = (self._turn + left_over) % workers
        return parts

    def for_worker(self, worker: int) -> Pact:
        """Return a pact of its own for each edge and worker, which begins with that worker."""
        return RebalancePact(worker)
