"""Hashes of whole records: the same wherever and as whatever they are."""

import datetime as dt
import pickle
import subprocess
import sys
import types
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tests.laws.strategies import law_settings
from tidewheel.batches.batches import records
from tidewheel.operators.keys.record_hash import GatherPact, RecordPact, record_hash, record_hashes
from tidewheel.runtime.description.stable_hash import stable_hash

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3)
KEYS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)
RECORDS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@dataclass(frozen=True)
class Point:
    """A record of a user's."""

    x: int
    y: Any


@dataclass(slots=True)
class Slotted:
    """Another one, without a dict."""

    x: int
    y: Any


class Plain:
    """A third, that is nothing but what it has."""

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


@law_settings(100)
@given(KEYS)
def test_what_can_be_a_key_hashes_as_a_key(key: Any) -> None:
    """So equal records meet where an exchange by the record brings them."""
    assert record_hash(key) == stable_hash(key)


@law_settings(200)
@given(RECORDS)
def test_a_copy_hashes_as_the_record(record: Any) -> None:
    """A hash is of the content: whether parts are one object or two, and where it was made, does not matter."""
    assert record_hash(pickle.loads(pickle.dumps(record))) == record_hash(record)


@law_settings(100)
@given(st.dictionaries(st.text(max_size=2), RECORDS, max_size=4), st.randoms())
def test_the_order_of_columns_does_not_matter(row: dict[str, Any], random: Any) -> None:
    """A row is its names and values."""
    names = list(row)
    random.shuffle(names)
    assert record_hash({name: row[name] for name in names}) == record_hash(row)


@pytest.mark.parametrize(
    "parts",
    [
        [[1, 2], [2, 1], [[1], 2], [1, 2, None], []],
        [{"a": [1]}, {"b": [1]}, {"a": [2]}, {"a": [1], "b": [1]}],
        [{1, 2}, {1}, frozenset({3})],
        [Point(1, [2]), Point(2, [1]), Point(1, [3]), Slotted(1, 2), Slotted(2, 1), Plain(x=1), Plain(y=1), Plain(x=2)],
        [np.array([1, 2]), np.array([2, 1]), np.array([[1, 2]]), np.array([1.0, 2.0])],
        [{1: "a"}, {2: "a"}, {1: "b"}],
        [OrderedDict(a=[1]), OrderedDict(a=[2])],
        [bytearray(b"a"), bytearray(b"b")],
        [("a", [dt.date(2024, 1, 1)]), ("a", [dt.date(2024, 1, 2)])],
    ],
    ids=lambda parts: type(parts[0]).__name__,
)
def test_different_records_have_different_hashes(parts: list[Any]) -> None:
    """Rows, lists, sets, objects and arrays are told apart by what they consist of; copies are not."""
    hashes = [record_hash(part) for part in parts]
    assert len(set(hashes)) == len(parts)
    assert [record_hash(pickle.loads(pickle.dumps(part))) for part in parts] == hashes
    assert all(0 <= hashed < 1 << 64 for hashed in hashes)


def test_another_process_has_the_same_hashes() -> None:
    """Sets and strings too, which Python hashes otherwise in each."""
    record = "{'tags': {'tide', 'wheel', 'loop'}, 'of': [('a', {'b': 1.5})]}"
    program = f"from tidewheel.operators.keys.record_hash import record_hash; print(record_hash({record}))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert {int(text) for text in found} == {record_hash(eval(record))}


@pytest.mark.parametrize("record", [print, lambda: 0, int, types.ModuleType("m"), (1, [open])])
def test_what_has_no_content_has_no_hash(record: Any) -> None:
    """The error shows the part to blame and its type."""
    with pytest.raises(
        TypeError, match=r"a record with .+ of type \w+ in it has no hash that is the same everywhere|cannot pickle"
    ):
        record_hash(record)


@pytest.mark.parametrize(
    "batch",
    [
        pa.table({"b": ["x", None, "x"], "a": [1, 2, None]}),
        pa.record_batch({"b": [1.5, None, 0.0], "a": [True, False, None]}),
        pa.table({"l": [[1], [], None], "s": [{"a": 1}, {"a": None}, None]}),
        np.array([1, -1, 2**40]),
        np.array([1.5, 2.0, float("nan")]),
        np.array([(1, "a"), (2, "b")], dtype=[("n", "i8"), ("w", "U1")]),
        np.array([[1, 2], [3, 4]]),
        ["a", 1, None, {"n": 1}],
        pa.table({"a": pa.array([], pa.int64())}),
    ],
    ids=str,
)
def test_columns_hash_as_their_records(batch: Any) -> None:
    """Vectorised or not, a row of a table has the hash of the dict, an entry of an array that of the value."""
    assert [int(hashed) for hashed in record_hashes(batch)] == [record_hash(record) for record in records(batch)]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_a_pact_by_record_brings_equal_records_together(workers: int) -> None:
    """From lists and tables alike, in order, and none is lost."""
    rows = [{"n": number % 7, "of": "rows"} for number in range(50)]
    parts = RecordPact().split(rows, workers)
    tables = RecordPact().split(pa.Table.from_pylist(rows), workers)
    assert [part or [] for part in parts] == [[] if part is None else part.to_pylist() for part in tables]
    assert sum(len(part or []) for part in parts) == 50
    owners = {(row["n"], worker) for worker, part in enumerate(parts) for row in part or []}
    assert len(owners) == 7
    with raises(TypeError):
        RecordPact().split([print], workers)


def test_a_pact_that_gathers_gives_all_to_worker_0() -> None:
    """As it is, whatever it is."""
    table = pa.table({"n": [1]})
    assert GatherPact().split(table, 3)[0] is table
    assert GatherPact().split([1], 2) == [[1], None]
    assert GatherPact().split([1], 1) == [[1]]
