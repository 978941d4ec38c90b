"""The mapping from keys to shards and workers: one for all kinds of batches, and even."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tests.laws.strategies import law_settings
from tidewheel.batches.batches import records
from tidewheel.operators.keys.record_hash import RecordPact
from tidewheel.operators.substreams.labeller import MarkedPact
from tidewheel.runtime.description.pacts import Exchange, SubstreamPact
from tidewheel.runtime.description.shards import (
    SHARDS,
    owner_of,
    owners_in_array,
    owners_of,
    owners_of_hashes,
    shard_of,
)
from tidewheel.runtime.description.stable_hash import hash_column, hash_integers, stable_hash
from tidewheel.runtime.messages.labels import EndOfSubstream, MixedLabel

WORKERS = st.integers(1, SHARDS)
KEYS = st.lists(st.integers() | st.text(max_size=3) | st.none() | st.tuples(st.integers(0, 3)), min_size=1, max_size=30)


@law_settings(200)
@given(KEYS, WORKERS, st.integers(1, 20))
@example([1, "a"], SHARDS, 1)
@example(list(range(30)), 3, 1)
def test_one_key_many_keys_and_hashes_have_the_same_owners(keys: list[Any], workers: int, times: int) -> None:
    """The owner of a key is its shard modulo the workers, however it is asked for, repeated keys too."""
    hashes = [stable_hash(key) for key in keys]
    expected = [hashed % 1024 % workers for hashed in hashes]
    assert [shard_of(key) % workers for key in keys] == expected
    assert [owner_of(key, workers) for key in keys] == expected
    assert owners_of(keys * times, workers) == expected * times
    assert owners_of_hashes(hashes, workers) == expected
    assert owners_in_array(np.array(hashes, np.uint64), workers).tolist() == expected


@pytest.mark.parametrize("workers", [2**power for power in range(11)])
def test_powers_of_two_are_those_of_the_hash(workers: int) -> None:
    """The owner is also the hash modulo the workers, so logs of such jobs stay as they are."""
    assert owners_of(list(range(5000)), workers) == [stable_hash(key) % workers for key in range(5000)]


def test_keys_that_python_cannot_hash_are_refused() -> None:
    """With the error of a key that has no stable hash."""
    with raises(TypeError):
        owners_of([[1], [1]], 2)


def owners_by_pact(keys: list[Any], workers: int) -> dict[str, dict[Any, int]]:
    """Return, for each way in which records or marks are spread, the worker that gets each key."""
    by_key = Exchange("key")
    rows = [{"key": key} for key in keys]
    array = np.array([(key,) for key in keys], dtype=[("key", np.array(keys).dtype)])
    batches = {"list": rows, "table": pa.Table.from_pylist(rows), "array": array}
    parts: dict[str, list[Any]] = {name: by_key.split(batch, workers) for name, batch in batches.items()}
    parts["records"] = RecordPact().split(keys, workers)
    parts["array of records"] = RecordPact().split(np.array(keys), workers)
    parts["marks"] = MarkedPact(by_key).split([EndOfSubstream(key) for key in keys], workers)
    found = {
        name: {
            _key(record): worker for worker, part in enumerate(split) if part is not None for record in records(part)
        }
        for name, split in parts.items()
    }
    label = MixedLabel(0, keys)
    found["substreams"] = {
        key: worker for worker, part, _ in SubstreamPact().labelled_parts(keys, workers, label) for key in part
    }
    found["a substream"] = {
        key: worker for key in keys for worker, _, _ in SubstreamPact().labelled_parts([key], workers, (0, key))
    }
    return found


def _key(record: Any) -> Any:
    if isinstance(record, dict):
        return record["key"]
    return record.key if isinstance(record, EndOfSubstream) else record[0] if isinstance(record, tuple) else record


@pytest.mark.parametrize("keys", [list(range(3000)), [f"user-{number}" for number in range(3000)]], ids=["int", "str"])
@pytest.mark.parametrize("workers", [2, 3, 7, 60, 1000])
def test_all_that_spreads_by_keys_has_one_mapping(keys: list[Any], workers: int) -> None:
    """Exchanges of every kind of batch, substreams, marks of their ends, and exchanges by the whole record."""
    expected = {key: owner_of(key, workers) for key in keys}
    for name, found in owners_by_pact(keys, workers).items():
        assert found == expected, name


MILLION = 1_000_000
FAMILIES: dict[str, Callable[[], "npt.NDArray[np.uint64]"]] = {
    "integers": lambda: hash_integers(np.arange(MILLION)),
    "multiples of 1,024": lambda: hash_integers(np.arange(MILLION) * 1024),
    "shifted integers": lambda: hash_integers(np.arange(MILLION) << 40),
    "seconds": lambda: hash_integers(1_700_000_000 + np.arange(MILLION) * 60),
    "random integers": lambda: hash_integers(np.random.default_rng(1).integers(2**62, size=MILLION)),
    "strings": lambda: hash_column(pa.array([f"user-{number}" for number in range(MILLION)])),
    "padded strings": lambda: hash_column(pa.array([f"{number:012}" for number in range(MILLION)])),
    "hexadecimal strings": lambda: hash_column(pa.array([f"{number * 2654435761:016x}" for number in range(MILLION)])),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_million_keys_are_spread_evenly(family: str) -> None:
    """No worker has much more than its part of the shards.

    Beyond its part, five standard deviations of chance are allowed for, and 1 %.
    """
    hashes = FAMILIES[family]()
    for workers in range(2, 65):
        counts = np.bincount(owners_in_array(hashes, workers), minlength=workers)
        shards = np.bincount(np.arange(SHARDS) % workers)
        fair = MILLION * shards / SHARDS
        assert (np.abs(counts - fair) <= 0.01 * fair + 5 * np.sqrt(fair)).all(), (workers, counts / fair)
        assert shards.max() * workers / SHARDS <= 1 + (workers - 1) / SHARDS
