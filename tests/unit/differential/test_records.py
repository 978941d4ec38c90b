"""Records go into arrays of updates and come out the same."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tests.laws.strategies import law_settings
from tidewheel.differential.consolidation import consolidated
from tidewheel.differential.records import (
    array_of,
    as_column,
    as_keys,
    as_pairs,
    column_of,
    decode,
    encode,
    gathered,
)

VALUES = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.booleans(), st.text(max_size=2), st.none()
)
RECORDS = st.lists(st.one_of(VALUES, st.tuples(VALUES, VALUES), st.tuples(VALUES, VALUES, VALUES)))


def typed(records: list[Any]) -> list[str]:
    return list(map(repr, records))


@law_settings(40)
@given(st.one_of(RECORDS, st.lists(st.tuples(st.integers(0, 9), st.floats(allow_nan=False)))))
def test_records_come_out_as_they_went_in(records: list[Any]) -> None:
    """With their types: True is not 1, and 1 is not 1.0."""
    assert typed(decode(encode(records))) == typed(records)


def test_columns_of_one_type_are_of_that_type() -> None:
    dtypes = [column_of(values).dtype.kind for values in ([1, 2], [0.5], [2**63], ["a"], [1, 0.5], [(1, 2), (3, 4)])]
    assert dtypes == ["i", "f", "O", "O", "O", "O"]


@law_settings(40)
@given(st.lists(st.lists(st.one_of(st.integers(0, 3), st.tuples(st.integers(0, 2), VALUES)), min_size=1), min_size=1))
def test_arrays_of_any_columns_are_added_up(parts: list[list[Any]]) -> None:
    """Whether they have pairs, single values or both, each record comes out once, with its count."""
    arrays = [encode(part) for part in parts]
    records = [record for part in parts for record in part]
    found = {
        record: count
        for array in consolidated(list(arrays))
        for record, count in zip(decode(array), array["diff"].tolist(), strict=True)
    }
    assert found == {record: sum(1 for one in records if one == record) for record in records}
    columns, diffs = gathered(arrays)
    assert typed(decode(array_of(columns, diffs))) == typed(records)


def test_numbers_of_numpy_become_python_s() -> None:
    """Sums of small types would overflow."""
    assert column_of([np.int8(100), 101]).dtype == np.int64
    assert column_of([np.float32(0.5), np.float64(2)]).dtype == np.float64
    assert [type(value) for value in column_of([np.int32(7), "a"])] == [int, str]
    assert column_of([np.timedelta64(1, "s")]).tolist() == [np.timedelta64(1, "s")]


def test_what_cancels_is_gone() -> None:
    assert list(consolidated([encode(["a", "b"]), encode(["b", "a"], [-1, -1])])) == []


def test_pairs_in_one_column_are_pairs() -> None:
    """A reduction returns records of objects in one column, whatever they are."""
    records = np.fromiter([("a", 1), ("b", 2)], object, 2)
    array = array_of([records], np.array([1, -1]))
    pairs = as_pairs(array, "operator 'join'")
    assert (pairs["key"].tolist(), pairs["value"].tolist()) == (["a", "b"], [1, 2])
    assert pairs["diff"].tolist() == [1, -1]


def test_records_that_are_no_pairs_are_refused() -> None:
    """The error names the operator, a record that is none, and the remedy."""
    with raises(TypeError):
        as_pairs(encode([(1, 2), 7]), "operator 'join'")


def test_records_become_keys() -> None:
    assert decode(as_keys(encode([(1, 2)]))) == [((1, 2), 0)]
    assert decode(as_keys(encode(["a"]))) == [("a", 0)]


def test_columns_that_users_make_are_of_plain_types() -> None:
    assert as_column(np.array([1], np.uint8)).dtype == np.int64
    assert as_column(np.array([1], np.float32)).dtype == np.float64
    assert typed(as_column(np.array(["a"])).tolist()) == ["'a'"]
    assert typed(as_column([True]).tolist()) == ["True"]
    with raises(TypeError):
        as_column([[1]])
