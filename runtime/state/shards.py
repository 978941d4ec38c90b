"""The shards to which keys belong, and the workers to which shards belong."""

from collections.abc import Sequence
from typing import Any

from tidewheel.runtime.description.stable_hash import hash_keys

SHARDS = 1024


def owners_of(keys: list[Any], workers: int) -> Sequence[int]:
    """Return the worker that owns each key."""
    return [hashed % SHARDS % workers for hashed in hash_keys(keys)]
