"""The pacts that spread the records of a batch over the workers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from tidewheel.batches.batches import Batch, is_arrow, is_numpy, length, records, scatter, take_slice
from tidewheel.runtime.description.shards import owner_of, owners_in_array, owners_of
from tidewheel.runtime.description.stable_hash import hash_column, hash_integers, hash_tuples, stable_hash
from tidewheel.runtime.messages.labels import Labels, MixedLabel, divide_by_owner, parts_by_key

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Pact(ABC):
    """Decides which records of a batch each worker receives over an edge."""

    __slots__ = ()

    takes_marks: ClassVar[bool] = False
    """Whether marks of the ends of substreams are sent over the edge, among the records."""
    keeps_substreams: ClassVar[bool] = False
    """Whether each substream goes to one worker, its `keeper`."""

    counts_apart: ClassVar[bool] = False
    """Whether messages are counted separately for each receiving worker; see `GraphShape`.

    The operator must then keep by key what it knows of times, since keys move when the number of workers changes.
    """

    def keeper(self, key: Any, workers: int) -> int:
        """Return the worker that receives the key's substream, if ``keeps_substreams``."""
        return owner_of(key, workers)

    def of_rescaled(self, batch: Batch, worker: int, workers: int) -> Batch:
        """Return the part of a batch in flight that ``worker`` sends again after a change of the number of workers."""
        return batch

    @abstractmethod
    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return each worker's part of a non-empty batch."""

    def labelled_parts(
        self, batch: Batch, workers: int, label: Labels | None
    ) -> Iterable[tuple[int, Batch, Labels | None]]:
        """Yield (worker, part, label of the part)."""
        if not isinstance(label, MixedLabel):
            parts = self.split(batch, workers)
            yield from ((worker, part, label) for worker, part in enumerate(parts) if part is not None)
            return
        for key, rows in parts_by_key(batch, label.keys):
            parts = self.split(rows, workers)
            yield from ((n, part, (label.declaration, key)) for n, part in enumerate(parts) if part is not None)

    def describe(self) -> str:
        """Describe the pact in words, such as ``broadcast``; by default the class name."""
        return type(self).__name__.removesuffix("Pact").lower()

    def for_worker(self, worker: int) -> "Pact":
        """Return the pact for one sender and edge: a new object if the pact remembers what it has sent."""
        return self

    def beside(self, attachments: Mapping[str, Any], worker: int) -> "Pact | None":
        """Return the pact for a worker with these attachments; None if the records stay on the worker."""
        return self


@dataclass(frozen=True, slots=True)
class BroadcastPact(Pact):
    """Sends the whole batch to each worker.

    >>> BroadcastPact().split(["a", "b"], 2)
    [['a', 'b'], ['a', 'b']]
    """

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        return [batch] * workers

    def labelled_parts(
        self, batch: Batch, workers: int, label: Labels | None
    ) -> Iterable[tuple[int, Batch, Labels | None]]:
        return [(worker, batch, label) for worker in range(workers)]


@dataclass(frozen=True, slots=True)
class SubstreamPact(Pact):
    """Sends all records of a substream to one worker."""

    keeps_substreams: ClassVar[bool] = True

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        return [batch, *[None] * (workers - 1)]

    def labelled_parts(
        self, batch: Batch, workers: int, label: Labels | None
    ) -> Iterable[tuple[int, Batch, Labels | None]]:
        if workers == 1 and label is not None:  # as with several workers, an unhashable label raises
            stable_hash(next(iter(label.distinct)) if isinstance(label, MixedLabel) else label[1])
        if isinstance(label, MixedLabel) and workers > 1:
            owner = {key: owner_of(key, workers) for key in label.distinct}
            return divide_by_owner(batch, label, [owner[key] for key in label.keys], workers)
        return [(0 if label is None or workers == 1 else owner_of(label[1], workers), batch, label)]  # type: ignore[index]


class RebalancePact(Pact):
    """Sends equal shares, in slices of the batches: all in all, the shares of one sender differ by at most one record.

    The pact remembers which worker's turn it is, so that small batches are spread evenly too.

    Args:
        turn: the worker that receives the first record left over.

    >>> pact = RebalancePact()
    >>> pact.split([1, 2, 3], 2), pact.split([4], 2), pact.split([5], 2)
    ([[1, 2], [3]], [None, [4]], [[5], None])
    """

    __slots__ = ("_turn",)

    def __init__(self, turn: int = 0) -> None:
        self._turn = turn

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return slices whose lengths differ by at most one. Arrow and NumPy slices are not copies."""
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
        """Return a new pact that gives the first turn to this worker."""
        return RebalancePact(worker)


Key: TypeAlias = Callable[[Any], Any] | str | tuple[str, ...]
"""How to get the key of a record: a function, the name of a column or field, or a tuple of names."""


@dataclass(frozen=True, slots=True)
class Exchange(Pact):
    """Sends each record to the worker that owns its key. All processes and kinds of batches agree on the owner.

    If the key is a column, the records of a list must be dicts, and Arrow tables and structured NumPy arrays are hashed
    at once. If the key is a function, it is called for each record.
    """

    key: Key

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return one part for each worker.

        With one worker only the first record's key is checked.
        """
        if workers == 1:
            self.split(take_slice(batch, 0, 1), 2)
            return [batch]
        return scatter(batch, self._owners(batch, workers), workers)

    def labelled_parts(
        self, batch: Batch, workers: int, label: Labels | None
    ) -> Iterable[tuple[int, Batch, Labels | None]]:
        """Yield the records for the owner of each key, who may differ from the `keeper` of the record's substream."""
        if isinstance(label, MixedLabel) and workers > 1:
            return divide_by_owner(batch, label, self._owners(batch, workers), workers)
        return [(worker, part, label) for worker, part in enumerate(self.split(batch, workers)) if part is not None]

    def _owners(self, batch: Batch, workers: int) -> "list[int] | npt.NDArray[np.uint16]":
        if isinstance(batch, list):
            key = self._key_function()
            return owners_of([key(record) for record in batch], workers)  # map() would end at a StopIteration
        return owners_in_array(self._hashes(batch), workers)

    def _key_function(self) -> Callable[[Any], Any]:
        if callable(self.key):
            return self.key
        names = (self.key,) if isinstance(self.key, str) else self.key
        if isinstance(self.key, str):
            return itemgetter(self.key)
        return lambda record: tuple(record[name] for name in names)

    def _hashes(self, batch: Batch) -> "npt.NDArray[np.uint64]":
        import numpy as np

        if callable(self.key):
            return np.array([stable_hash(self.key(record)) for record in records(batch)], dtype=np.uint64)
        if isinstance(self.key, str):
            return self._hash_field(batch, self.key)
        return hash_tuples([self._hash_field(batch, name) for name in self.key])

    @staticmethod
    def _hash_field(batch: Batch, name: str) -> "npt.NDArray[np.uint64]":
        import numpy as np

        if is_arrow(batch):
            if name not in batch.schema.names:
                raise KeyError(f"no column {name!r} to exchange by; the batch has {batch.schema.names}")
            return hash_column(batch.column(name))
        if not is_numpy(batch) or batch.dtype.names is None or name not in batch.dtype.names:
            raise KeyError(f"no field {name!r} to exchange by; the array's dtype is {batch.dtype}")
        values = batch[name]
        if values.dtype.kind in "iub":
            return hash_integers(values)
        return np.array([stable_hash(value) for value in records(values)], dtype=np.uint64)
