"""Join across epochs: pairs of records of any epochs, each at the later of the two."""

import pickle
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.behaviour.operators.test_join_tables import typed_sides
from tests.kit.messages import raises
from tests.kit.operators.harness import Bags, operator_settings
from tests.kit.operators.two_sides import (
    COMPOSITE_KEYS,
    KEYS,
    WORKERS,
    Feed,
    Row,
    do_match,
    numbers_in_pairs,
    numbers_in_tables,
    row_feeds,
    run_two,
    table_of,
)
from tidewheel.operators.joins.table_index import TableIndex, sort_by_key
from tidewheel.operators.keys.record_keys import Keys


def joined(left: Feed, right: Feed) -> Bags:
    """Return the numbers of the rows of each pair, at the later time of the two."""
    found: Bags = {}
    for time, row in [(time, row) for time, rows in left for row in rows]:
        for other_time, other in [(time, row) for time, rows in right for row in rows]:
            if do_match(row, other):
                found.setdefault(max(time, other_time), Counter())[row.number, other.number] += 1
    return found


@operator_settings(60)
@given(row_feeds(KEYS + COMPOSITE_KEYS), row_feeds(KEYS + COMPOSITE_KEYS), WORKERS)
def test_each_pair_comes_once(left: Feed, right: Feed, workers: int) -> None:
    """All pairs of all epochs come, each once, as soon as both are there; None and NaN match nothing."""
    (results,) = run_two(
        lambda one, other: [one.join_across_epochs(other, lambda row: row.key)], (left, right), workers
    )
    assert numbers_in_pairs(results) == joined(left, right)


@operator_settings(100)
@given(typed_sides(), WORKERS)
def test_each_pair_of_rows_comes_once(sides: Any, workers: int) -> None:
    """The same for tables, with keys of all types and also different ones on both sides."""
    feeds, (one, other) = sides
    make = (table_of(one, "k", "l"), table_of(other, "j", "r"))
    (results,) = run_two(lambda left, right: [left.join_across_epochs(right, "k", "j")], feeds, workers, make)
    assert numbers_in_tables(results) == joined(*feeds)


@operator_settings(30)
@given(row_feeds([1, 2]), row_feeds([1, 2]), WORKERS)
def test_two_columns_can_be_the_key(left: Feed, right: Feed, workers: int) -> None:
    """A key of several columns matches where all of them do."""

    def two(name: str) -> Any:
        def make(rows: list[Row]) -> Any:
            table = table_of(pa.int64(), "k", name)(rows)
            return table.append_column("half", pa.array([row.number % 2 for row in rows], pa.int8()))

        return make

    (results,) = run_two(
        lambda one, other: [one.join_across_epochs(other, ("k", "half"))], (left, right), workers, (two("l"), two("r"))
    )

    def with_two(feed: Feed) -> Feed:
        return [(time, [Row((row.key, row.number % 2), row.number) for row in rows]) for time, rows in feed]

    assert numbers_in_tables(results) == joined(with_two(left), with_two(right))


@operator_settings(60)
@given(st.lists(st.lists(st.sampled_from([None, *range(6)]), max_size=8), max_size=30))
def test_an_index_stays_a_few_tables(batches: list[list[int | None]]) -> None:
    """However many tables are added, there are at most log2 of the rows, all rows are found, and it can be pickled."""
    index = TableIndex(Keys("k"))
    for number, keys in enumerate(batches):
        index.add(sort_by_key(pa.table({"k": pa.array(keys, pa.int64()), "number": [number] * len(keys)}), Keys("k")))
    rows = sum(key is not None for keys in batches for key in keys)
    assert len(index.tables) <= max(rows, 1).bit_length()
    asked = sort_by_key(pa.table({"k": pa.array([3, None, 5], pa.float32())}), Keys("k"))
    found = Counter(
        (asked.rows["k"][place].as_py(), rows["number"][row].as_py())
        for rows, matches in pickle.loads(pickle.dumps(index)).match(asked, Keys("k"))
        for place, row in zip(matches.left.tolist(), matches.right.tolist(), strict=True)
    )
    wanted = Counter((key, number) for number, keys in enumerate(batches) for key in keys if key in {3, 5})
    assert found == wanted


def test_keys_with_one_hash_are_told_apart() -> None:
    """Hashes only say where to look: the greatest uint64 and -1 have the same one and are two keys."""
    kept = sort_by_key(pa.table({"k": pa.array([2**64 - 1, 5], pa.uint64())}), Keys("k"))
    wanted = sort_by_key(pa.table({"k": pa.array([-1, 5], pa.int64())}), Keys("k"))
    assert kept.hashes.tolist() == wanted.hashes.tolist()
    index = TableIndex(Keys("k"))
    index.add(kept)
    ((rows, matches),) = index.match(wanted, Keys("k"))
    assert rows["k"].take(matches.right).to_pylist() == wanted.rows["k"].take(matches.left).to_pylist() == [5]


def test_arguments_are_checked_as_those_of_join_are() -> None:
    """The operator is named in what is wrong with its keys."""
    flow = tw.Dataflow("test")
    left: Any = flow.input("left")
    with raises(tw.GraphError):
        left.join_across_epochs(left, 3)
    with raises(tw.GraphError):
        left.join_across_epochs(left, len, suffix="_b")


def test_intervals_can_be_keys() -> None:
    """Of months, days and nanoseconds, which Arrow itself does not compare."""
    keys = pa.array([(1, 2, 3), (0, 1, 0), None], pa.month_day_nano_interval())
    index = TableIndex(Keys("k"))
    index.add(sort_by_key(pa.table({"k": keys, "n": [1, 2, 3]}), Keys("k")))
    wanted = sort_by_key(pa.table({"k": keys[:2]}), Keys("k"))
    found = [
        (wanted.rows["k"][int(left)].as_py(), rows["n"][int(right)].as_py())
        for rows, matches in index.match(wanted, Keys("k"))
        for left, right in zip(*matches, strict=True)
    ]
    assert sorted(found) == [((0, 1, 0), 2), ((1, 2, 3), 1)]
