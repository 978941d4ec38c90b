"""Samples that depend on nothing but the records: who is chosen is the same on any number of workers, in every run."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidewheel.operators.keys.record_hash import record_hashes
from tidewheel.operators.keys.record_keys import Keys
from tidewheel.operators.keys.record_order import take
from tidewheel.runtime.description.stable_hash import hash_column, hash_tuples, stable_hash
from tidewheel.transport.batches import Batch, is_arrow

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
"""Shifts and factors after which each bit depends on all."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """Keeps a share of the records, chosen by the hash of the record or its key, and by a seed.

    Source: SplitMix64 of "Fast splittable pseudorandom number generators" (OOPSLA 2014) mixes hash and seed.

    >>> len(Sampler(0.25, seed=1, keys=None).pick(list(range(10_000))))
    2569
    """

    fraction: float
    seed: int
    keys: Keys | None

    def pick(self, batch: Batch) -> Batch:
        """Return the records that are chosen, in order, as a batch of the same kind."""
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
        key = self.keys.key
        if is_arrow(batch) and isinstance(key, str | tuple):
            columns = [hash_column(batch.column(name)) for name in ((key,) if isinstance(key, str) else key)]
            return columns[0] if isinstance(key, str) else hash_tuples(columns)
        return np.array([stable_hash(value) for value in self.keys.of(batch)], dtype=np.uint64)
