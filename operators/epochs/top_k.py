"""The greatest records of a batch, or of each key in it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidewheel.operators.keys.record_keys import Keys, as_key_column, places_by_key
from tidewheel.operators.keys.record_order import Order, sortable, take
from tidewheel.transport.batches import Batch, is_arrow, records

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class TopK:
    """Picks the first ``k`` records in an order, of each key if there are keys.

    >>> TopK(2, None, Order(None, reverse=True)).pick([3, 1, 4, 1, 5])
    [5, 4]
    >>> TopK(1, Keys(lambda n: n % 2), Order(None, reverse=True)).pick([3, 1, 4, 1, 5])
    [5, 4]
    """

    k: int
    keys: Keys | None
    order: Order

    def pick(self, batch: Batch) -> Batch:
        """Return what is picked of a batch, in order, each key by itself; a batch of the same kind."""
        if self.keys is None:
            return self.order.sorted(batch, self.k)
        if self.order.uses_columns(batch):
            return self._pick_columnar(batch, self.keys)
        rows = records(batch)
        picked: list[int] = []
        for found in places_by_key(self.keys.hashable(batch)).values():
            ranked = self.order.indices([rows[place] for place in found], self.k)
            picked += [found[rank] for rank in ranked]
        return take(batch, picked)

    def _pick_columnar(self, batch: Batch, keys: Keys) -> Batch:
        ranked = take(batch, self.order.indices(batch))
        if callable(keys.key) or not is_arrow(batch):
            places = places_by_key(keys.hashable(ranked)).values()
            return take(ranked, [place for found in places for place in found[: self.k]])
        for name in keys.names:
            if name not in ranked.schema.names:
                raise KeyError(f"no column {name!r} for the key; the batch has {ranked.schema.names}")
        return take(ranked, _first_of_each(_codes(ranked, keys.names), self.k))


def _codes(batch: Batch, names: list[str]) -> "npt.NDArray[np.int64]":
    """Return a number for each row, the same for equal keys only."""
    import numpy as np
    import pyarrow as pa

    codes = np.zeros(batch.num_rows, np.int64)
    for name in names:
        column = as_key_column(sortable(batch.column(name)))
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = whole.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1]  # numbers stay small, however many columns there are
    return codes


def _first_of_each(codes: "npt.NDArray[np.int64]", k: int) -> "npt.NDArray[np.int64]":
    """Return the places of the first ``k`` of each code, those of one code together and in order."""
    import numpy as np

    by_code = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    return by_code[np.arange(len(codes)) - starts < k]
