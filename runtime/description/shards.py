"""The mapping from keys to shards, and from shards to workers.

A key belongs to one of `SHARDS` shards, by its `stable_hash`. Shard ``s`` belongs to worker ``s % workers``. Exchanges,
keyed operators and keyed state all use this mapping, so the records of a key arrive where its state is.

The shard of a key never changes within a `HASH_VERSION`. When the number of workers changes, whole shards move.

Balance: apart from chance, no worker has more keys than ``1 + (workers - 1) / SHARDS`` times the mean. With up to 64
workers that is at most 6.2 % more. If their number is a power of two, all have the mean.
"""

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from tidewheel.runtime.description.stable_hash import hash_keys, stable_hash

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SHARDS = 1024
"""The number of shards, and so the greatest number of workers; a power of two."""

_BITS = SHARDS - 1
_SAMPLE = 2000


def shard_of(key: Any) -> int:
    """Return the shard of a key; raise TypeError if it has no `stable_hash`.

    >>> shard_of("tide"), shard_of(1.0) == shard_of(1)
    (205, True)
    """
    return stable_hash(key) & _BITS


def owner_of(key: Any, workers: int) -> int:
    """Return the worker that owns a key; raise TypeError if the key has no `stable_hash`.

    >>> owner_of("tide", 5) == shard_of("tide") % 5
    True
    """
    return shard_of(key) % workers


def owners_of(keys: list[Any], workers: int) -> list[int]:
    """Return the worker that owns each key. With `SHARDS` workers, the worker is the key's shard.

    If many of the first keys repeat, equal keys are hashed only once.

    Raises:
        TypeError: a key has no `stable_hash`.

    >>> owners_of(["tide", "wheel", "tide"], SHARDS)
    [205, 372, 205]
    """
    sample = keys[:_SAMPLE]
    try:
        if 2 * len(set(sample)) <= len(sample):
            owners = _owners_of_shards(workers)
            owner = {key: owners[stable_hash(key) & _BITS] for key in dict.fromkeys(keys)}
            return [owner[key] for key in keys]
    except TypeError:  # Python cannot hash all of them
        pass
    return owners_of_hashes(hash_keys(keys), workers)


def owners_of_hashes(hashes: Iterable[int], workers: int) -> list[int]:
    """Return the worker that owns each key, given the `stable_hash` of each.

    >>> owners_of_hashes(map(stable_hash, ["tide", "wheel"]), 3)
    [1, 0]
    """
    bits = workers - 1
    if not workers & bits:  # a power of two: nothing to look up
        return [hashed & bits for hashed in hashes]
    owners = _owners_of_shards(workers)
    return [owners[hashed & _BITS] for hashed in hashes]


def owners_in_array(hashes: "npt.NDArray[np.uint64]", workers: int) -> "npt.NDArray[np.uint16]":
    """Return the worker that owns each key, given an array of the keys' `stable_hash`.

    >>> import numpy as np
    >>> owners_in_array(np.array([stable_hash("tide"), stable_hash("wheel")], np.uint64), 3)
    array([1, 0], dtype=uint16)
    """
    import numpy as np

    if not workers & (workers - 1):
        return hashes.astype(np.uint16) & np.uint16(workers - 1)
    # A look-up takes a third of the time of a division.
    return _owners_as_array(workers).take((hashes & np.uint64(_BITS)).view(np.int64))


@cache
def _owners_of_shards(workers: int) -> list[int]:
    return [shard % workers for shard in range(SHARDS)]


@cache
def _owners_as_array(workers: int) -> "npt.NDArray[np.uint16]":
    import numpy as np

    return np.array(_owners_of_shards(workers), np.uint16)
