"""Epochs as record batches."""

from typing import Any

import pyarrow as pa
import pytest

from tests.kit.gateway.served import published
from tests.kit.messages import raises
from tests.kit.pubsub.local_job import send_end, send_epoch
from tidewheel.gateway.epoch_tables import timed_batches
from tidewheel.progress import TidewheelError
from tidewheel.pubsub.subscribers.subscribing import subscribe


def converted(*epochs: Any) -> list[tuple[bytes, Any]]:
    """Publish batches, each an epoch, and return what becomes of them: the time, and the batch."""
    with published("tables") as running, subscribe("tables") as subscription:
        for time, batch in enumerate(epochs):
            send_epoch(running, time, batch)
        send_end(running, len(epochs))
        return [(found.time, found.batch) for found in timed_batches(subscription.domain, subscription)]


def test_tables_stay_as_they_are() -> None:
    """With their types and the metadata of their schema."""
    table = pa.table({"n": pa.array([1, 2], pa.int16()), "raw": [b"a", b"b"]}).replace_schema_metadata({"k": "v"})
    found = converted(table, table)
    assert [time for time, _ in found] == [b"0", b"1"]
    assert all(batch.schema.equals(table.schema, check_metadata=True) for _, batch in found)
    assert found[0][1].to_pylist() == table.to_pylist()


def test_ends_of_substreams_have_no_place_in_tables() -> None:
    """An epoch that has nothing else is left out."""
    with published("tables") as running, subscribe("tables") as subscription:
        running.handles[0].ends(0, ["a"])
        send_epoch(running, 0, [])
        send_epoch(running, 1, pa.table({"n": [3]}))
        send_end(running, 2)
        found = [(found.time, found.batch.to_pydict()) for found in timed_batches(subscription.domain, subscription)]
    assert found == [(b"1", {"n": [3]})]


def test_an_epoch_of_many_batches_is_one() -> None:
    """Over all partitions, and whatever chunks there were."""
    with published("tables", workers=2) as running, subscribe("tables") as subscription:
        send_epoch(running, 0, pa.table({"n": pa.chunked_array([[1], [2]])}), pa.table({"n": [3]}))
        send_end(running, 1)
        assert [found.batch.to_pydict() for found in timed_batches(subscription.domain, subscription)] == [
            {"n": [1, 2, 3]}
        ]


def test_records_that_are_dicts_are_rows() -> None:
    """A key that only some have is a column; what is missing is null, also in later epochs."""
    found = converted([{"n": 1}, {"m": "a"}], [{"n": 2}])
    assert [batch.to_pylist() for _, batch in found] == [
        [{"n": 1, "m": None}, {"n": None, "m": "a"}],
        [{"n": 2, "m": None}],
    ]
    assert found[0][1].schema == found[1][1].schema == pa.schema([("n", pa.int64()), ("m", pa.string())])


def test_dictionaries_become_plain_columns_however_deep() -> None:
    """A stream of this kind does not carry them."""
    words = pa.array(["a", "b", "a"]).dictionary_encode()
    table = pa.table(
        {
            "flat": words,
            "list": pa.ListArray.from_arrays([0, 2, 3, 3], words),
            "large": pa.LargeListArray.from_arrays([0, 2, 3, 3], words),
            "struct": pa.StructArray.from_arrays([words], ["word"]),
        }
    )
    ((_, batch), (_, later)) = converted(table, table)
    assert "dictionary" not in str(batch.schema)
    assert batch.to_pylist() == later.to_pylist() == table.to_pylist()


def test_a_later_table_is_made_to_fit_if_that_loses_nothing() -> None:
    """Columns in another order, and narrower types."""
    found = converted(pa.table({"n": [1], "s": ["a"]}), pa.table({"s": ["b"], "n": pa.array([2], pa.int8())}))
    assert [batch.to_pylist() for _, batch in found] == [[{"n": 1, "s": "a"}], [{"n": 2, "s": "b"}]]


@pytest.mark.parametrize(
    ("epochs", "says"),
    [
        ([[1, 2]], "the epoch of time 0 is no table: its records are int; Arrow Flight carries tables and dicts"),
        ([[{"n": 1}, ("n", 1)]], "its records are tuple;"),
        ([[{"n": 1}, {"n": "a"}]], "the epoch of time 0 is no table: "),
        ([[{"n": object()}]], "the epoch of time 0 is no table: "),
        ([[{1: "a"}]], "the epoch of time 0 is no table: "),
        ([[{"n": 1}], [{"n": 1, "m": 2}]], "of time 1 is no table like those before it: it has the columns ['n', 'm']"),
        ([[{"n": 1}], [{"n": 1.5}]], "the epoch of time 1 is no table like those before it"),
        ([[{"n": 1}], [{"n": "a"}]], "the epoch of time 1 is no table like those before it"),
        ([pa.table({"n": [1]}), pa.table({"m": [1]})], "it has the columns ['m'], and the first epoch had ['n']"),
        ([pa.table({"n": [1]}), pa.table({"n": [1], "m": [1]})], "the first epoch had ['n']"),
        ([pa.table({"n": [1], "m": [1]}), pa.table({"n": [1]})], "the first epoch had ['n', 'm']"),
        ([pa.table({"n": [1]}), pa.table({"n": [1.5]})], "the epoch of time 1 is no table like those before it"),
        ([pa.table({"n": pa.array([1], pa.int8())}), pa.table({"n": [1000]})], "like those before it"),
        ([pa.table({"n": [1]}), [{"n": 1}, 2]], "its records are int"),
    ],
    ids=range(14),
)
def test_what_makes_no_table_says_so(epochs: list[Any], says: str) -> None:
    """With the time, what came, and what was expected; what came before it has gone out."""
    with pytest.raises(TidewheelError) as caught:
        converted(*epochs)
    assert says in str(caught.value)


def test_tables_of_one_epoch_that_differ_say_so() -> None:
    """As two partitions may publish."""
    with published("tables", workers=2) as running, subscribe("tables") as subscription:
        send_epoch(running, 0, pa.table({"n": [1]}), pa.table({"n": ["a"]}))
        with raises(TidewheelError):
            list(timed_batches(subscription.domain, subscription))
