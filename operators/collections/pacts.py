"""The pacts that bring updates with equal records, or equal keys, to one worker."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tidewheel.batches.batches import Batch, scatter
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.shards import owners_in_array
from tidewheel.runtime.description.stable_hash import hash_integers, hash_keys, hash_tuples, stable_hash

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_AT_ONCE = 1 << 14
"""The number of keys hashed at once, so that hashes stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class RecordPact(Pact):
    """Sends updates to the worker that owns the record; the record is in two columns or in one."""

    counts_apart: ClassVar[bool] = True

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        from tidewheel.differential.records import columns_of

        return _split(columns_of, batch, workers)


@dataclass(frozen=True, slots=True)
class KeyPact(Pact):
    """Sends updates of pairs to the worker that owns the key."""

    counts_apart: ClassVar[bool] = True
    operator: str

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        return _split(self._keys, batch, workers)

    def _keys(self, batch: Batch) -> "list[npt.NDArray[Any]]":
        from tidewheel.differential.records import as_pairs

        return [as_pairs(batch, f"operator {self.operator!r}")["key"]]


@dataclass(frozen=True, slots=True)
class SameWorkerPact(Pact):
    """Keeps updates, or numbers of updates, on their worker.

    Args:
        owners: the pact that has sent the updates to this worker; None for numbers.
    """

    owners: Pact | None = None

    def split(self, batch: Batch, workers: int) -> list[Batch | None]:
        return [batch] * workers if self.owners is None else self.owners.split(batch, workers)

    def beside(self, attachments: Mapping[str, Any], worker: int) -> Pact | None: ...

    def describe(self) -> str:
        return "same worker"


def _split(columns: "Callable[[Batch], list[npt.NDArray[Any]]]", batch: Batch, workers: int) -> list[Batch | None]:
    if workers == 1:
        for column in columns(batch[:1]):  # as with several workers, an unhashable key raises
            stable_hash(column.tolist()[0])
        return [batch]
    return scatter(batch, owners_of_columns(columns(batch), workers), workers)


def owners_of_columns(columns: "Sequence[npt.NDArray[Any]]", workers: int) -> "npt.NDArray[np.uint16]":
    """Return the owner of each key. Keys that are pairs are in two columns, other keys in one."""
    import numpy as np

    owners = np.empty(len(columns[0]), np.uint16)
    for first in range(0, len(owners), _AT_ONCE):
        rows = slice(first, first + _AT_ONCE)
        hashes = [_hashes(column[rows]) for column in columns]
        owners[rows] = owners_in_array(hashes[0] if len(hashes) == 1 else hash_tuples(hashes), workers)
    return owners


def _hashes(column: "npt.NDArray[Any]") -> "npt.NDArray[np.uint64]":
    import numpy as np

    if column.dtype.names:
        return hash_tuples([_hashes(column[name]) for name in column.dtype.names])
    if column.dtype.kind == "i":
        return hash_integers(column)
    return np.fromiter(hash_keys(column.tolist()), np.uint64, len(column))
