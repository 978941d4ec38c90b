"""Keys of records: how they are found, and which are one key."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.laws.strategies import law_settings
from tests.unit.operators.test_record_hash import RECORDS
from tidewheel.operators.keys.record_keys import Keys, as_key, as_record
from tidewheel.runtime.batches import records

ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}, {"a": 1, "b": "y"}]
STRUCTURED = np.array([(1, "x"), (2, "x"), (1, "y")], dtype=[("a", "i8"), ("b", "U1")])
BATCHES = [ROWS, pa.Table.from_pylist(ROWS), pa.RecordBatch.from_pylist(ROWS), STRUCTURED]


@law_settings(200)
@given(RECORDS)
def test_a_record_can_be_made_a_key_and_back(record: Any) -> None:
    """Rows, lists and what is in them; what was a key already stays equal to itself."""
    key = as_key(record)
    assert {key: "found"}[as_key(record)] == "found"
    assert as_key(as_record(key)) == key or "nan" in repr(record)
    assert as_record(key) == record or "nan" in repr(record)
    assert type(as_record(key)) is type(record)


@law_settings(200)
@given(st.lists(RECORDS, min_size=2, max_size=2))
def test_keys_are_equal_where_records_are(pair: list[Any]) -> None:
    """A list is not a tuple, and a row is neither."""
    one, other = pair
    assert (as_key(one) == as_key(other)) == (one == other) or "nan" in repr(pair)


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: type(batch).__name__)
@pytest.mark.parametrize(
    ("key", "found"),
    [("a", [1, 2, 1]), (("a", "b"), [(1, "x"), (2, "x"), (1, "y")]), (("b",), [("x",), ("x",), ("y",)])],
)
def test_keys_stand_in_columns(batch: Any, key: Any, found: list[Any]) -> None:
    """Of rows, tables and structured arrays; several names make tuples, and one in a tuple does too."""
    keys = Keys.checked("test", key)
    assert keys.of(batch) == keys.hashable(batch) == found
    groups = keys.grouped(batch)
    assert groups == {
        value: [record for record, of in zip(records(batch), found, strict=True) if of == value] for value in found
    }


@law_settings(100)
@given(st.lists(st.floats() | st.integers(0, 3) | st.tuples(st.floats(), st.integers(0, 2))))
def test_nan_is_one_key(values: list[Any]) -> None:
    """However many objects there are, also in tuples; each record is in one group, in order."""
    keys = Keys(lambda record: record)
    copies = [(float(str(value)) if isinstance(value, float) else value) for value in values]
    groups = keys.grouped(copies)
    assert sum(map(len, groups.values())) == len(values)
    assert len(groups) == len(set(keys.hashable(copies)))
    assert sum(1 for key in groups if isinstance(key, float) and math.isnan(key)) <= 1
    assert [groups[key] for key in groups] == [
        [value for value, of in zip(copies, keys.hashable(copies), strict=True) if of == key or of is key]
        for key in groups
    ]


@pytest.mark.parametrize("key", [None, 3, (), ["a"], ("a", 1), b"a"])
def test_what_is_no_key_is_refused(key: Any) -> None:
    """The error names the operator and says what a key is."""
    with pytest.raises(tw.GraphError, match="operator 'test': a key is a function of a record, the name of a "):
        Keys.checked("test", key)


@pytest.mark.parametrize("batch", BATCHES[1:], ids=lambda batch: type(batch).__name__)
def test_a_name_that_is_not_there_is_named_with_those_that_are(batch: Any) -> None:
    """The error says what could have been meant."""
    with pytest.raises(KeyError, match=r"no column 'm' for the key; the batch has (\['a', 'b'\]|dtype \[\('a', )"):
        Keys("m").of(batch)


@pytest.mark.parametrize("unhashable", [[1], {1}, {"a": 1}, (1, [2])], ids=str)
def test_keys_that_cannot_be_hashed_are_named(unhashable: Any) -> None:
    """A function has to return something that can be; whole records may be rows and lists, but no sets."""
    keys = Keys(lambda record: record)
    for find in (keys.hashable, keys.grouped):
        with pytest.raises(
            TypeError, match=r"cannot be a key, unhashable type: .*: a key is something that can be hashed"
        ):
            find(["fine", unhashable])
    whole = Keys(None)
    if isinstance(unhashable, set):
        with pytest.raises(TypeError, match=r"\{1\} of type set cannot be a key"):
            whole.grouped([unhashable])
    else:
        assert list(whole.grouped(["fine", unhashable, unhashable]).values()) == [
            ["fine"],
            [unhashable] * 2,
        ]
