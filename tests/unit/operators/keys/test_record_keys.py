"""Keys of records: how they are found, and which are one key."""

import math
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import LISTS, TABLES, Case, Kind, run
from tests.kit.operators.operator_case import number_of
from tests.laws.strategies import law_settings
from tests.unit.operators.keys.test_record_hash import RECORDS
from tidewheel.batches.batches import records
from tidewheel.operators.keys.record_keys import Keys, as_key, as_record, is_nan, join_nan_groups
from tidewheel.operators.keys.record_order import Order
from tidewheel.runtime.description.pacts import Exchange

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
    with raises(tw.GraphError):
        Keys.checked("test", key)


@pytest.mark.parametrize("batch", BATCHES[1:], ids=lambda batch: type(batch).__name__)
def test_a_name_that_is_not_there_is_named_with_those_that_are(batch: Any) -> None:
    """The error says what could have been meant."""
    with raises(KeyError):
        Keys("m").of(batch)


@pytest.mark.parametrize("unhashable", [[1], {1}, {"a": 1}, (1, [2])], ids=str)
def test_keys_that_cannot_be_hashed_are_named(unhashable: Any) -> None:
    """A function has to return something that can be; whole records may be rows and lists, but no sets."""
    keys = Keys(lambda record: record)
    for find in (keys.hashable, keys.grouped):
        with raises(TypeError):
            find(["fine", unhashable])
    whole = Keys(None)
    if isinstance(unhashable, set):
        with raises(TypeError):
            whole.grouped([unhashable])
    else:
        assert list(whole.grouped(["fine", unhashable, unhashable]).values()) == [
            ["fine"],
            [unhashable] * 2,
        ]


def test_a_key_function_that_stops_iterating_loses_nothing() -> None:
    """StopIteration is an error like any other, and no end of the records."""
    for batch in ([1, 2, 3], np.array([1, 2, 3])):
        with pytest.raises(StopIteration):
            Keys(stop_at_two).of(batch)
    with pytest.raises(StopIteration):
        Exchange(stop_at_two).split([1, 2, 3], 2)
    with pytest.raises(StopIteration):
        Order(stop_at_two).sorted([1, 2, 3])


def stop_at_two(number: int) -> int:
    if number == 2:
        raise StopIteration
    return number


def _take_from_nothing(record: Any) -> Any:
    return next(iter(())) if number_of(record) == 3 else 0


_KEYED: dict[str, Callable[[tw.Stream[Any]], tw.Stream[Any]]] = {
    "count": lambda s: s.count(_take_from_nothing),
    "deduplicate": lambda s: s.deduplicate(_take_from_nothing),
    "deduplicate, order": lambda s: s.deduplicate(lambda record: 0, _take_from_nothing),
    "top_k": lambda s: s.top_k(9, key=_take_from_nothing),
    "top_k, order": lambda s: s.top_k(9, order=_take_from_nothing),
    "sort": lambda s: s.sort(_take_from_nothing),
    "merge": lambda s: s.merge(s, by=_take_from_nothing),
    "aggregate": lambda s: s.aggregate(_take_from_nothing, start=int, add=lambda state, record: state),
    "aggregate, without start": lambda s: s.aggregate(_take_from_nothing, add=lambda one, other: one),
    "accumulate": lambda s: s.accumulate(_take_from_nothing, start=int, add=lambda state, record: state),
    "stateful_map": lambda s: s.stateful_map(
        lambda record: 0, start=int, step=lambda n, r: (n, r), order=_take_from_nothing
    ),
    "join": lambda s: s.join(s, _take_from_nothing),
    "cogroup": lambda s: s.cogroup(s, _take_from_nothing),
    "sample": lambda s: s.sample(0.5, key=_take_from_nothing),
}


@pytest.mark.parametrize("name", _KEYED)
@pytest.mark.parametrize("kind", [LISTS, TABLES], ids=lambda kind: kind.name)
def test_every_operator_reports_a_function_that_stops_iterating(name: str, kind: Kind) -> None:
    """By its name, whether it reads keys before or after the exchange."""
    for workers in (1, 2):
        with pytest.raises(
            tw.JobError, match=f"operator '{name.split(',', maxsplit=1)[0]}.* at time 0: .*StopIteration"
        ):
            run(_KEYED[name], Case([(0, list(range(6)))], kind, workers))


def test_exchange_reports_a_function_that_stops_iterating() -> None:
    """Between several workers, where it looks at every record."""
    with raises(tw.JobError):
        run(lambda stream: stream.exchange(_take_from_nothing), Case([(0, list(range(6)))], workers=2))


def test_many_nan_are_grouped_in_one_go() -> None:
    """Each NaN is another object; what is done for one does not grow with how many there were."""
    touched = 0

    class Rows(list[Any]):
        def __add__(self, other: list[Any]) -> "Rows":
            nonlocal touched
            touched += len(self)
            return Rows([*self, *other])

    joined = join_nan_groups({float("nan"): Rows([number]) for number in range(1000)})
    assert list(joined.values()) == [list(range(1000))]
    assert touched == 0


class Named(NamedTuple):
    """A tuple with names."""

    key: int
    part: Any


def test_named_tuples_are_keys_as_plain_ones_are() -> None:
    """NaN in them is one, lists and rows become hashable; and back they are what they were."""
    assert as_key(Named(1, float("nan"))) == as_key(Named(1, float("nan")))
    for part in (["a"], {"a": [1]}, (1, ["a"])):
        key = as_key(Named(1, part))
        assert {key: "found"}[as_key(Named(1, part))] == "found"
        assert as_record(key) == Named(1, part)
        assert type(as_record(key)) is Named
    plain = Named(1, 2)
    assert as_key(plain) is plain


def test_a_key_from_another_process_has_the_same_nan() -> None:
    """Unpickled, NaN is another object; as a key it is the one again, also within rows and lists."""
    for record in ({"n": math.nan}, [math.nan], (math.nan,), math.nan):
        came = pickle.loads(pickle.dumps(as_key(record)))
        assert {as_key(record): "found"}[as_key(came)] == "found"


def test_what_has_no_truth_is_no_nan() -> None:
    """Arrays compare part by part."""
    array = np.array([1, 2])
    assert not is_nan(array)
    assert as_key(array) is array
