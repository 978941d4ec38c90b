"""A hash of whole records that is the same in every process, and the pact that sends equal records to one worker.

The hash also orders records that are otherwise equal in an order.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, ClassVar

from tidewheel.batches.batches import Batch, is_arrow, is_numpy, records, scatter, take_slice
from tidewheel.operators.keys.record_keys import as_record
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.shards import owners_in_array, owners_of_hashes
from tidewheel.runtime.description.stable_hash import hash_column, hash_integers, hash_tuples, stable_hash
from tidewheel.runtime.messages.labels import Labels

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def record_hash(record: Any) -> int:
    """Return a 64-bit hash of a record, the same in every process.

    The hash of a key is its `stable_hash`. Rows (dicts), lists, sets, arrays and objects that can be pickled are hashed
    by their parts.

    Within a `HASH_VERSION` the hash of keys, rows, lists, sets, arrays and objects of plain classes never changes.
    Other objects are hashed by their ``__reduce_ex__``, class name and attributes, cached values included. So a new
    version of Python or of a library may change their hash, as Python 3.13 does for `pathlib.Path`. State by record
    must then be hashed again.

    Raises:
        TypeError: a part of the record has another type.

    >>> record_hash((1, "a")) == stable_hash((1, "a"))
    True
    >>> record_hash({"n": 1, "tags": ["a"]}) == record_hash({"tags": ["a"], "n": 1})
    True
    """
    try:
        return stable_hash(record)
    except TypeError:
        if isinstance(record, dict) and all(isinstance(name, str) for name in record):
            names = sorted(record)
            return record_hash(tuple([record[name] for name in names])) ^ stable_hash(tuple(names))
        return stable_hash(tuple([record_hash(part) for part in _parts(record)]))


def _parts(record: Any) -> Iterator[Any]:
    if isinstance(record, list | tuple):
        yield from record
    elif isinstance(record, set | frozenset):
        yield from sorted(map(record_hash, record))
    elif isinstance(record, dict):
        yield from sorted(record_hash(item) for item in record.items())
    elif isinstance(record, bytearray | memoryview):
        yield bytes(record)
    elif is_numpy(record) and not record.dtype.hasobject:
        yield from (str(record.dtype), record.shape, record.tobytes())
    else:
        yield from _parts_of_object(record)


def _parts_of_object(record: Any) -> Iterator[Any]:
    try:
        reduced = record.__reduce_ex__(4)
    except TypeError:
        reduced = None
    if isinstance(record, type) or callable(record) or not isinstance(reduced, tuple):
        raise TypeError(
            f"a record with {short(record)} of type {type(record).__qualname__} in it has no hash that is the same "
            "everywhere: a record consists of values that can be pickled, and of no functions or classes"
        )
    _, arguments, *state = reduced
    yield type(record).__qualname__
    yield [argument for argument in arguments if not isinstance(argument, type)]
    for part in state[:3]:
        yield list(part) if isinstance(part, Iterator) else part


def record_hashes(batch: Batch) -> "list[int] | npt.NDArray[np.uint64]":
    """Return the `record_hash` of every record; vectorised on Arrow and on NumPy's whole numbers."""
    if is_arrow(batch) and batch.num_columns:
        names = sorted(batch.schema.names)
        try:
            hashed = hash_tuples([hash_column(batch.column(name)) for name in names])
        except TypeError:  # a column of lists or structs
            return [record_hash(row) for row in records(batch)]
        return hashed ^ hashed.dtype.type(stable_hash(tuple(names)))
    if is_numpy(batch) and batch.ndim == 1 and batch.dtype.kind in "iub":
        return hash_integers(batch)
    return [record_hash(record) for record in records(batch)]


@dataclass(frozen=True, slots=True)
class RecordPact(Pact):
    """Sends equal records to one worker, which is the same for every kind of batch.

    >>> RecordPact().split(["a", "c", "a"], 2)
    [['a', 'a'], ['c']]
    """

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return one part for each worker; with a single worker, check only the first record, as `Exchange` does."""
        if workers == 1:
            record_hashes(take_slice(batch, 0, 1))
            return [batch]
        hashes = record_hashes(batch)
        if isinstance(hashes, list):
            return scatter(batch, owners_of_hashes(hashes, workers), workers)
        return scatter(batch, owners_in_array(hashes, workers), workers)

    def describe(self) -> str:
        return "by the whole record"


def owners_of_records(keys: list[Any], workers: int) -> list[int]:
    """Return, for each key made from a record, the worker to which `RecordPact` sends the record."""
    return owners_of_hashes([record_hash(as_record(key)) for key in keys], workers)


@dataclass(frozen=True, slots=True)
class GatherPact(Pact):
    """Sends whole batches to one worker.

    >>> GatherPact().split(["a", "b"], 3), GatherPact(2).split(["a", "b"], 3)
    ([['a', 'b'], None, None], [None, None, ['a', 'b']])
    """

    to: int = 0

    keeps_substreams: ClassVar[bool] = True

    def keeper(self, key: Any, workers: int) -> int:
        return self.to

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        return [batch if worker == self.to else None for worker in range(workers)]

    def labelled_parts(
        self, batch: Batch, workers: int, label: Labels | None
    ) -> Iterable[tuple[int, Batch, Labels | None]]:
        return [(self.to, batch, label)]

    def describe(self) -> str:
        return f"to worker {self.to}"
