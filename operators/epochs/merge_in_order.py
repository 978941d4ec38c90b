"""Merging streams in order: the records of each epoch as one sorted batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidewheel.operators.epochs.gathered_epochs import GatheredEpoch, arrays_as_tables
from tidewheel.operators.keys.key_columns import sortable
from tidewheel.operators.keys.nan_last import nan_last
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.operators.keys.record_order import Comparable, Order, take
from tidewheel.transport.batches import Batch, concatenate, is_arrow

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class MergeInOrder:
    """Sorts the records of an epoch from several streams; equal ones by stream, and within a stream by content."""

    by: Comparable

    def process(self, kept: object, epoch: GatheredEpoch) -> Sequence[list[Batch]]:
        """Return the epoch as one batch, of the kind that all batches are of, or else a list."""
        every = [batch for batches in epoch.batches for batch in batches]
        streams = [concatenate(arrays_as_tables(batches, every)) for batches in epoch.batches if batches]
        merged = concatenate([Order(self.by).sorted(stream) for stream in streams])
        return ([merged if len(streams) == 1 else take(merged, self._indices(merged))],)

    def _indices(self, batch: Batch) -> "Sequence[int] | npt.NDArray[np.int64]":
        """Return the order of a batch, by nothing but ``by``: of equal records the first stays first."""
        if callable(self.by) or isinstance(batch, list):
            keys = nan_last(Keys(self.by).of(batch))
            return sorted(range(len(keys)), key=keys.__getitem__)
        return _arrow_indices(batch, _names(self.by)) if is_arrow(batch) else _numpy_indices(batch, _names(self.by))


def _arrow_indices(batch: Batch, names: tuple[str, ...]) -> "npt.NDArray[np.int64]":
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = [str(place) for place in range(len(names))]
    columns = pa.table([sortable(batch.column(name)) for name in names], names=labels)
    found: npt.NDArray[np.int64] = pc.sort_indices(
        columns, sort_keys=[(label, "ascending") for label in labels]
    ).to_numpy()
    return found


def _numpy_indices(batch: Batch, names: tuple[str, ...]) -> "npt.NDArray[np.int64]":
    import numpy as np

    return np.lexsort([batch[name] for name in reversed(names)])


def _names(by: str | tuple[str, ...]) -> tuple[str, ...]:
    return (by,) if isinstance(by, str) else by
