"""Counting by key: partially where the records are, and then the partial counts of each key on its owner."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidewheel.operators.keys.record_keys import Keys, as_key, as_records, may_have_nan
from tidewheel.transport.batches import Batch, is_arrow

Counts: TypeAlias = Counter[Any]
"""How often each key came."""


@dataclass(frozen=True, slots=True)
class PartialCounts:
    """The first half of counting: pairs (key, count) come of it.

    >>> counts = PartialCounts(Keys(None))
    >>> counts.finish(counts.add(counts.start(), ["to", "be", "to"]))
    [[('to', 2), ('be', 1)]]
    """

    keys: Keys

    def start(self) -> Counts:
        """Return no counts."""
        return Counter()

    def add(self, state: Counts, batch: Batch) -> Counts:
        """Count the keys of a batch."""
        if is_arrow(batch) and not callable(self.keys.key) and self._add_columns(state, batch):
            return state
        keys = self.keys.of(batch)
        try:
            state.update(keys)
        except TypeError:
            self.keys.check(keys)
            counted = next(place for place, key in enumerate(keys) if not _is_hashable(key))
            state.update(map(as_key, keys[counted:]))  # rows and lists are keys in another form
        return state

    def _add_columns(self, state: Counts, batch: Batch) -> bool:
        """Count by Arrow's kernels, so that only distinct keys become Python objects; return whether Arrow can."""
        import pyarrow as pa

        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        names = batch.schema.names if self.keys.key is None else self.keys.names
        if not names or not set(names) <= set(table.column_names):
            return False
        try:
            counted = table.group_by(names).aggregate([([], "count_all")])
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError):  # a column of lists or structs
            return False
        keys = map(as_key, self.keys.of(counted.drop_columns("count_all")))
        for key, count in zip(keys, counted["count_all"].to_pylist(), strict=True):
            state[key] = state.get(key, 0) + count
        return True

    def size(self, state: Counts) -> int:
        """Return how many keys there are."""
        return len(state)

    def finish(self, state: Counts) -> Iterable[Batch]:
        """Return pairs (key, count) as one batch."""
        return [list(state.items())]


@dataclass(frozen=True, slots=True)
class SummedCounts:
    """The second half of counting: adds up the partial counts of each key.

    Attributes:
        whole: the keys are whole records.
    """

    whole: bool

    def start(self) -> dict[Any, int]:
        """Return no counts."""
        return {}

    def add(self, state: dict[Any, int], batch: Batch) -> dict[Any, int]:
        """Add partial counts up."""
        if not state:
            state.update(batch)
            if len(state) == len(batch):
                return state
            state.clear()
        known = state.get
        for key, count in batch:
            state[key] = known(key, 0) + count
        return state

    def finish(self, state: dict[Any, int]) -> Iterable[Batch]:
        """Return pairs (key, count) as one batch."""
        if not may_have_nan(state):
            return [list(state.items())]
        state = self.add({}, [(as_key(key), count) for key, count in state.items()])
        return [list(zip(as_records(state) if self.whole else state, state.values(), strict=True))]


def _is_hashable(key: Any) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True
