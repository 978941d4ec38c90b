"""The exchange pact: each record goes to the worker that owns its key."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.stable_hash import hash_column, hash_integers, hash_keys, hash_tuples, stable_hash
from tidewheel.runtime.substreams.labels import Labels, MixedLabel, divide_by_owner
from tidewheel.transport.batches import Batch, is_arrow, is_numpy, records, scatter, take_slice

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Key: TypeAlias = Callable[[Any], Any] | str | tuple[str, ...]
"""How the key of a record is found: a function, the name of a column or field, or a tuple of names."""


_FITS_16_BITS = 1 << 16
_SAMPLE = 2000


@dataclass(frozen=True, slots=True)
class Exchange(Pact):
    """Sends each record to the worker that owns its key, the same in every process and for every kind of batch.

    Names of columns are vectorised on Arrow tables and structured NumPy arrays; on lists they index the record, which
    is then a dict. A function is called for each record.
    """

    key: Key

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        """Return one part for each worker, None where a worker gets nothing; the batch is not empty.

        With one worker only the first record's key is looked at: enough to find out that the key is wrong.
        """
        if workers == 1:
            self.split(take_slice(batch, 0, 1), 2)
            return [batch]
        if isinstance(batch, list):
            return self._split_list(batch, workers)
        import numpy as np

        hashes = self._hashes(batch)
        owners = hashes & np.uint64(workers - 1) if workers & (workers - 1) == 0 else hashes % np.uint64(workers)
        return scatter(batch, owners.astype(np.uint16 if workers <= _FITS_16_BITS else np.int64), workers)

    def labelled_parts(
        self, batch: Batch, workers: int, label: Labels | None
    ) -> Iterable[tuple[int, Batch, Labels | None]]:
        """Give each record to the worker that owns its key, which need not be that of its substream."""
        if not isinstance(label, MixedLabel):
            parts = self.split(batch, workers)
            return [(worker, part, label) for worker, part in enumerate(parts) if part is not None]
        if workers == 1:
            self.split(batch, workers)
            return [(0, batch, label)]
        if isinstance(batch, list):
            key = self._key_function()
            owners = _owners([key(record) for record in batch], workers)
        else:
            owners = [int(hashed) % workers for hashed in self._hashes(batch)]
        return divide_by_owner(batch, label, owners, workers)

    def _split_list(self, batch: list[Any], workers: int) -> list[Batch | None]:
        key = self._key_function()
        keys = [key(record) for record in batch]  # map() would end at a StopIteration, and lose the rest
        parts: list[list[Any]] = [[] for _ in range(workers)]
        for record, owner in zip(batch, _owners(keys, workers), strict=True):
            parts[owner].append(record)
        return [part or None for part in parts]

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


def _owners(keys: list[Any], workers: int) -> list[int]:
    """Return which worker owns each key; hashes each different key once, if few are different."""
    sample = keys[:_SAMPLE]
    try:
        if 2 * len(set(sample)) <= len(sample):
            owner_of = {key: stable_hash(key) % workers for key in dict.fromkeys(keys)}
            return [owner_of[key] for key in keys]
    except TypeError:  # not all can be hashed by Python
        pass
    return [hashed % workers for hashed in hash_keys(keys)]
