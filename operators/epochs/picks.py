"""Picks, which select records from a batch: each record once, the greatest, the first of each key, or a sample.

The result is a batch of the same kind, and does not depend on the order of the records.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidewheel.batches.batches import Batch, is_arrow, length, records
from tidewheel.operators.epochs.gathered_epochs import joined
from tidewheel.operators.keys.arrow_rows import as_table
from tidewheel.operators.keys.key_columns import as_key_column, hash_rows, number_rows, sortable
from tidewheel.operators.keys.record_hash import record_hashes
from tidewheel.operators.keys.record_keys import Keys, as_key, check_column, may_have_nan, places_by_key
from tidewheel.operators.keys.record_order import Order, first_by_content, take
from tidewheel.runtime.description.stable_hash import stable_hash

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_WHOLE_RECORDS = Keys(None)
_BY_CONTENT = Order(())
"""An order in which all rows of a table are equal, so that only their content decides."""

_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
"""The shifts and factors of a hash; each bit of the hash depends on all bits of its input."""


def distinct_records(batch: Batch) -> Batch:
    """Return each record of a batch once; raise TypeError if one cannot be hashed.

    Records are compared as in Python; rows are equal if all columns are. NaN equals NaN, and None equals None.

    >>> distinct_records(["a", "b", "a"]), distinct_records([{"n": 1}, {"n": 1}])
    (['a', 'b'], [{'n': 1}])
    """
    if isinstance(batch, list):
        return _distinct_in_list(batch)
    if is_arrow(batch):
        return _distinct_rows(batch)
    if batch.ndim == 1 and not batch.dtype.hasobject and batch.dtype.names is None:
        import numpy as np

        return np.unique(batch)
    return _first_of_each(batch, _WHOLE_RECORDS.hashable(batch))


def _first_of_each(batch: Batch, keys: Iterable[Any]) -> Batch:
    places: dict[Any, int] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, place)
    return take(batch, list(places.values()))


def _distinct_in_list(rows: list[Any]) -> list[Any]:
    try:
        found = list(dict.fromkeys(rows))
    except TypeError:
        _WHOLE_RECORDS.check(rows)
        found = rows
    else:
        if not may_have_nan(found):
            return found
    return list({as_key(record): record for record in found}.values())


def _distinct_rows(batch: Batch) -> Batch:
    import pyarrow as pa

    table = as_table(batch)
    if not table.num_columns:
        return table.slice(0, 1)
    try:
        keys = pa.Table.from_arrays([as_key_column(column) for column in table.columns], schema=table.schema)
        return keys.group_by(table.column_names).aggregate([])
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):  # a column of lists or structs
        return _first_of_each(table, _WHOLE_RECORDS.hashable(table))


@dataclass(frozen=True, slots=True)
class TopK:
    """Picks the first ``k`` records in an order; with keys, the first ``k`` of each key.

    >>> TopK(2, None, Order(None, reverse=True)).pick([3, 1, 4, 1, 5])
    [5, 4]
    >>> TopK(1, Keys(lambda n: n % 2), Order(None, reverse=True)).pick([3, 1, 4, 1, 5])
    [5, 4]
    """

    k: int
    keys: Keys | None
    order: Order

    def pick(self, batch: Batch) -> Batch:
        """Return the picked records in order, those of a key together."""
        if self.keys is None:
            return self.order.sorted(batch, self.k)
        if self.order.uses_columns(batch):
            return self._pick_columnar(batch, self.keys)
        groups = places_by_key(self.keys.hashable(batch)).values()
        rows = records(batch) if len(groups) < length(batch) else ()
        picked: list[int] = []
        for found in groups:
            if len(found) > 1:
                picked += [found[rank] for rank in self.order.indices([rows[place] for place in found], self.k)]
            else:
                picked += found
        return take(batch, picked)

    def _pick_columnar(self, batch: Batch, keys: Keys) -> Batch:
        ranked = take(batch, self.order.indices(batch))
        if callable(keys.key) or not is_arrow(batch):
            places = places_by_key(keys.hashable(ranked)).values()
            return take(ranked, [place for found in places for place in found[: self.k]])
        for name in keys.names:
            check_column(ranked, name)
        rows = as_table(ranked)
        numbers = number_rows([as_key_column(sortable(rows.column(name))) for name in keys.names])
        return take(ranked, _first_rows(numbers, self.k))


def _first_rows(numbers: "npt.NDArray[np.int64]", k: int) -> "npt.NDArray[np.int64]":
    import numpy as np

    by_number = np.argsort(numbers, kind="stable")
    counts = np.bincount(numbers)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    return by_number[np.arange(len(numbers)) - starts < k]


@dataclass(frozen=True, slots=True)
class FirstOfEach:
    """Passes the first record of each key over all epochs; within an epoch, the first in ``order``.

    Attributes:
        order: None if only the content decides.
    """

    keys: Keys
    order: Order | None

    def process(self, kept: dict[Any, Any], batches: list[Batch]) -> Batch:
        batch = self.pick(joined(batches))
        new = {key: place for place, key in enumerate(self.keys.hashable(batch)) if key not in kept}
        kept.update(dict.fromkeys(new))
        return take(batch, list(new.values()))

    def pick(self, batch: Batch) -> Batch:
        if self.keys.key is None:
            return distinct_records(batch)
        if self.order is not None or (is_arrow(batch) and not callable(self.keys.key)):
            return TopK(1, self.keys, self.order or _BY_CONTENT).pick(batch)
        groups = places_by_key(self.keys.hashable(batch)).values()
        rows = records(batch) if len(groups) < length(batch) else ()
        return take(batch, [first_by_content(rows, places) for places in groups])


@dataclass(frozen=True, slots=True)
class Sampler:
    """Picks a share of the records, by a hash of the record or key and by a seed. All workers pick in the same way.

    Source: SplitMix64 of "Fast splittable pseudorandom number generators" (OOPSLA 2014) mixes hash and seed.

    >>> len(Sampler(0.25, seed=1, keys=None).pick(list(range(10_000))))
    2569
    """

    fraction: float
    seed: int
    keys: Keys | None

    def pick(self, batch: Batch) -> Batch:
        import numpy as np

        mixed = self._hashes(batch) + np.uint64(stable_hash(self.seed))
        for shift, factor in _STEPS:
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        chosen = (mixed >> np.uint64(11)).astype(np.float64) < self.fraction * 2.0**53
        return batch if chosen.all() else take(batch, np.flatnonzero(chosen))

    def _hashes(self, batch: Batch) -> "npt.NDArray[np.uint64]":
        import numpy as np

        if self.keys is None:
            return np.asarray(record_hashes(batch), dtype=np.uint64)
        if is_arrow(batch) and not callable(self.keys.key):
            return hash_rows(batch, self.keys)
        return np.array([stable_hash(value) for value in self.keys.of(batch)], dtype=np.uint64)
