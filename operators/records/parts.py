"""Taking batches apart by record: what is kept and what is divided stays in order, and of the batch's kind."""

from collections.abc import Iterable, Sequence
from itertools import chain, compress
from typing import Any

from tidewheel.transport.batches import Batch, is_arrow, length, scatter, take_slice

_FITS_16_BITS = 1 << 16


def keep(batch: Batch, wanted: Sequence[object]) -> Batch:
    """Return the records of ``batch`` for which ``wanted``, with an entry for each, is true.

    >>> keep(["a", "b", "c"], [1, 0, True])
    ['a', 'c']
    """
    if isinstance(batch, list):
        return list(compress(batch, wanted))
    mask = [bool(entry) for entry in wanted]
    if all(mask):
        return batch
    if not any(mask):
        return take_slice(batch, 0, 0)
    if is_arrow(batch):
        import pyarrow as pa

        return batch.filter(pa.array(mask, pa.bool_()))
    import numpy as np

    return batch[np.array(mask, dtype=np.bool_)]


def with_keys_repeated(results: Iterable[Iterable[Any]], keys: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return the results of all records in one list, and beside each the key of its record.

    >>> with_keys_repeated([["to", "be"], []], [1, 2])
    (['to', 'be'], [1, 1])
    """
    parts = [list(made) for made in results]
    repeated = [key for key, part in zip(keys, parts, strict=True) for _ in part]
    return list(chain.from_iterable(parts)), repeated


def divide(batch: Batch, owners: Sequence[int], parts: int) -> list[Batch | None]:
    """Return part ``i`` with the records whose owner is ``i``, of ``0 .. parts - 1``; None for a part without any.

    Args:
        batch: is not empty.
        owners: has an entry for each record.
        parts: how many there are.

    >>> divide(["a", "b", "c"], [2, 0, 2], 3)
    [['b'], None, ['a', 'c']]
    """
    assert len(owners) == length(batch), "each record has an owner"
    if parts == 1:
        return [batch]
    if isinstance(batch, list):
        made: list[Batch] = [[] for _ in range(parts)]
        for record, owner in zip(batch, owners, strict=True):
            made[owner].append(record)
        return [part or None for part in made]
    import numpy as np

    return scatter(batch, np.array(owners, dtype=np.uint16 if parts <= _FITS_16_BITS else np.int64), parts)
