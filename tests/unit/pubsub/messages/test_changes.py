"""Sums of changes, as plain Python adds them up."""

from collections import Counter
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.changes import PresentState, sum_of, summed
from tidewheel.pubsub.messages.encoded_message import decode_batch, encode_batch
from tidewheel.pubsub.messages.events import Batch, Epoch, SubscriberStatistics

RECORDS = st.sampled_from([(1, "a"), (1, "b"), (2, "a"), (None, "a"), (2, None)])
BATCHES = st.lists(st.lists(st.tuples(RECORDS, st.integers(-2, 2)), max_size=5), min_size=1, max_size=6)


def table(changes: list[tuple[Any, int]]) -> pa.Table:
    columns = {
        "key": pa.array([key for (key, _), _ in changes], pa.int64()),
        "value": pa.array([value for (_, value), _ in changes], pa.string()),
        "diff": pa.array([count for _, count in changes], pa.int64()),
    }
    return pa.table(columns)


def epoch(*batches: Any) -> Epoch:
    counter = SubscriberStatistics()
    return Epoch(3, tuple(Batch(3, 0, encode_batch(3, batch), counter) for batch in batches))


def counted(found: pa.Table) -> dict[Any, int]:
    rows = [((row["key"], row["value"]), row["diff"]) for row in found.to_pylist()]
    assert len(dict(rows)) == len(rows), "a record has two rows"
    return dict(rows)


@given(BATCHES)
def test_lists_and_tables_have_the_same_sum(batches: list[list[tuple[Any, int]]]) -> None:
    """Each record once, with the sum of its counts, and none whose count is 0."""
    counts: Counter[Any] = Counter()
    for batch in batches:
        for record, count in batch:
            counts[record] += count
    expected = {record: count for record, count in counts.items() if count}
    listed = decode_batch(summed(7, [encode_batch(0, batch) for batch in batches]))
    assert dict(listed) == expected
    assert len(listed) == len(expected)
    assert counted(decode_batch(summed(7, [encode_batch(0, table(batch)) for batch in batches]))) == expected
    state = PresentState("topic")
    for batch in batches[1:]:
        state.add([epoch(table(batch))])
    assert counted(state.add([epoch(table(batches[0]))])) == expected


@pytest.mark.parametrize("make", [list, table])
def test_a_count_that_needs_more_than_64_bits_is_an_error(make: Any) -> None:
    """It names the record; a sum that has room is exact though its parts have none together."""
    large = [((1, "a"), 2**63 - 1), ((1, "b"), 1)]
    state = PresentState("topic")
    with raises(DeliveryError):
        state.add([epoch(make(large)), epoch(make([((1, "a"), 1)]))])
    batches = [large, [((1, "a"), 1)], [((1, "a"), -2)]]
    found = PresentState("topic").add([epoch(make(batch)) for batch in batches])
    assert counted(found) == {(1, "a"): 2**63 - 2, (1, "b"): 1}


def test_records_that_no_table_has_as_they_are_make_none() -> None:
    batch = [((1, date(2024, 1, 1)), 1), ((2, datetime.fromisoformat("2024-01-01T12:00")), 1)]
    with raises(DeliveryError):
        PresentState("topic").add([epoch(batch)])


def test_one_nan_takes_back_another() -> None:
    """As those of two batches, which were pickled, are two objects."""
    batches = [encode_batch(0, [(("a", float("nan")), count)]) for count in (1, -1)]
    assert decode_batch(summed(7, batches)) == []


def test_batches_may_differ_in_their_types() -> None:
    """One worker may have only nulls, or only whole numbers, where another has floats."""
    parts = [{"n": [None], "diff": [1]}, {"n": [1], "diff": [1]}, {"n": [1.0], "diff": [1]}, {"n": [0.5], "diff": [1]}]
    found: Any = sum_of([pa.table(part) for part in parts])
    assert sorted(map(str, found.to_pylist())) == [
        "{'n': 0.5, 'diff': 1}",
        "{'n': 1.0, 'diff': 2}",
        "{'n': None, 'diff': 1}",
    ]


@pytest.mark.parametrize("size", [2, 100])
def test_batches_may_differ_in_their_dictionaries(size: int) -> None:
    """As tables with categories do; all of them may be more than the indices of one have room for."""
    words = [[f"{start + number}" for number in range(size)] for start in (0, size - 1)]
    columns = [pa.array(some).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())) for some in words]
    found: Any = sum_of([pa.table({"word": column, "diff": [1] * size}) for column in columns])
    counts = {row["word"]: row["diff"] for row in found.to_pylist()}
    assert counts == Counter([*words[0], *words[1]])


def test_a_column_of_several_types_is_refused() -> None:
    """The error says which these are, and how all tables have the same."""
    with raises(DeliveryError):
        sum_of([pa.table({"n": [1], "diff": [1]}), pa.table({"n": ["one"], "diff": [1]})])


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ([((1, "a"), 2), ((2, "b"), 1)], [{"key": 1, "value": "a", "diff": 2}, {"key": 2, "value": "b", "diff": 1}]),
        ([("a", 2)], [{"record": "a", "diff": 2}]),
        ([((1, 2, 3), -1)], [{"record": [1, 2, 3], "diff": -1}]),
        ([("a", 1), ("a", -1)], []),
    ],
)
def test_records_that_are_no_rows_have_columns(changes: Any, rows: Any) -> None:
    """Pairs have two columns, and all other records one."""
    assert PresentState("topic").add([epoch(changes)]).to_pylist() == rows


def test_a_state_that_has_not_changed_is_the_same_table() -> None:
    """Asking again costs nothing."""
    state = PresentState("topic")
    first = state.add([epoch([("a", 1)])])
    assert state.add([]) is first


@pytest.mark.parametrize("wrong", [[1, 2], [("a", "b")], [([], 1)], pa.table({"n": [1]})], ids=str)
def test_what_is_no_change_is_refused(wrong: Any) -> None:
    """The error says what a topic with history has, and the state stays as it was."""
    state = PresentState("topic")
    before = state.add([epoch([("a", 1)])])
    with raises(DeliveryError):
        state.add([epoch(wrong)])
    assert state.add([]) is before


def test_a_column_of_lists_is_refused() -> None:
    """Arrow does not group by lists, and the error says so."""
    with raises(DeliveryError):
        PresentState("topic").add([epoch(pa.table({"n": [[1]], "diff": [1]}))])


def test_records_of_several_types_make_no_table() -> None:
    """The error says what to do, and nothing of the epoch is added."""
    state = PresentState("topic")
    state.add([epoch([("a", 1)])])
    with raises(DeliveryError):
        state.add([epoch([(1, 1)])])
    assert state.add([epoch([("a", 1)])]).to_pylist() == [{"record": "a", "diff": 2}]


def test_a_state_that_has_missed_changes_is_no_table() -> None:
    """It would not be the present state."""
    state = PresentState("topic")
    with raises(DeliveryError):
        state.add([], lacks=True)
    assert state.add([]).num_rows == 0
    state.miss("epoch 3 was read otherwise")
    with raises(DeliveryError):
        state.add([])
