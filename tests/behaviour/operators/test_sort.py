"""Sort: all records of an epoch in order, as one batch."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import tidewheel as tw
from tests.kit.operators.harness import Case, run, tag_with_worker
from tidewheel.batches.batches import records


def in_order(stream_of: Any, *batches: Any, workers: int = 2) -> list[Any]:
    """Return the records of the one batch that comes of some batches of one epoch."""
    flow = tw.Dataflow("test")
    stream_of(flow.source("records", tw.IterableSource([[(0, batch)] for batch in batches]))).capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait()
        (result,) = job.captured("results")
    return records(result.batch)


def test_it_comes_out_on_worker_0() -> None:
    """All of an epoch is in one place."""
    results = run(
        lambda stream: stream.exchange(lambda n: n).sort().unary(tag_with_worker, name="tag"),
        Case([(0, list(range(20)))], workers=3),
    )
    assert [result.batch for result in results] == [[(number, 0) for number in range(20)]]


def test_missing_values_come_last() -> None:
    """Nulls and NaN of a column, whichever way round."""
    table = pa.table({"a": [2.0, None, 1.0, math.nan]})
    for reverse, first in ((False, ["1.0", "2.0"]), (True, ["2.0", "1.0"])):
        found = in_order(lambda stream, way=reverse: stream.sort("a", reverse=way), table)
        assert [str(row["a"]) for row in found] == [*first, "nan", "None"]


def test_columns_that_arrow_does_not_sort_are_sorted() -> None:
    """Dictionaries and half floats by what they stand for."""
    table = pa.table(
        {
            "dictionary": pa.array(["b", "a", "c"]).dictionary_encode(),
            "half": pa.array(np.array([2, 1, 3], np.float16)),
        }
    )
    for name in table.column_names:
        assert [row["dictionary"] for row in in_order(lambda stream, by=name: stream.sort(by), table)] == list("abc")
    assert [row["dictionary"] for row in in_order(lambda stream: stream.sort(), table)] == list("abc")


TIED = [("b", 1), ("a", 1), ("c", 0), ("d", 1), ("c", 1), ("e", 0)]


@pytest.mark.parametrize("order", [lambda pair: pair[1], "n"], ids=["function", "column"])
def test_records_that_are_equal_in_order_do_not_depend_on_how_they_came(order: Any) -> None:
    """Their content decides, so any arrival on any number of workers gives the same batch."""
    found = set()
    for turn in range(len(TIED)):
        pairs = TIED[turn:] + TIED[:turn]
        halves: list[Any] = [pairs[:3], pairs[3:]]
        if order == "n":
            halves = [
                pa.table({"w": [w for w, _ in half], "n": [n for _, n in half], "l": [[w] for w, _ in half]})
                for half in halves
            ]
        for workers in (1, 2):
            found.add(str(in_order(lambda stream: stream.sort(order), *halves, workers=workers)))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("batch", "order", "what"),
    [
        ([1, "a"], None, r"records cannot be compared: '<' not supported .*; order by a function of a record"),
        ([1, "a"], lambda record: record, r"the values by which records are ordered cannot be compared"),
        ([object(), open], lambda record: 0, r"the order does not tell <.*> and <.*> apart, and .* has no hash"),
        (pa.table({"a": [1]}), "b", r"KeyError: .*no column 'b' to order by; the batch has \['a'\]"),
        (np.array([1]), "b", r"KeyError: .*no field 'b' to order by; the array's dtype is int64"),
    ],
)
def test_what_cannot_be_ordered_is_an_error(batch: Any, order: Any, what: str) -> None:
    """The error names the operator and the time, and says what to do."""
    with pytest.raises(tw.JobError, match=f"(?s)operator 'sort' failed on worker 0 at time 0: .*{what}"):
        in_order(lambda stream: stream.sort(order), batch, workers=1)


@pytest.mark.parametrize("reverse", [False, True])
def test_nan_comes_last_in_every_kind_of_batch(reverse: bool) -> None:
    """By themselves and by name, alone and as a part of a tuple; wherever it stood."""
    for turn in range(5):
        numbers = [3.0, math.nan, 1.0, math.nan, 2.0]
        numbers = numbers[turn:] + numbers[:turn]
        expected = [*(["3.0", "2.0", "1.0"] if reverse else ["1.0", "2.0", "3.0"]), "nan", "nan"]
        pairs = [(0, number) for number in numbers]
        array = np.array(pairs, [("k", "i8"), ("n", "f8")])
        table = pa.table({"k": [0] * 5, "n": numbers})
        for batch, order in (
            (numbers, None),
            (np.array(numbers), None),
            (pairs, None),
            (pairs, list),
            (pairs, lambda pair: Pair(*pair)),
            (numbers, float),
            (table.to_pylist(), ("k", "n")),
            (table.to_pylist(), "n"),
            (table, ("k", "n")),
            (array, ("k", "n")),
            (array, None),
        ):
            found = in_order(lambda stream, by=order: stream.sort(by, reverse=reverse), batch)
            values = [tuple(row.values()) if isinstance(row, dict) else row for row in found]
            assert [str(value[-1] if isinstance(value, tuple) else value) for value in values] == expected


def test_not_a_time_comes_last_in_reverse_too() -> None:
    """NumPy's dates have a NaN of their own."""
    days = np.array(["2026-01-01", "NaT", "2026-01-02"], "M8[D]")
    for batch in (days, list(days)):
        found = in_order(lambda stream: stream.sort(reverse=True), batch)
        assert list(map(str, found)) == ["2026-01-02", "2026-01-01", "NaT"]


class Pair(NamedTuple):
    """A tuple with names."""

    key: int
    number: float


def _nothing(record: object) -> None:
    """Find the same key in all."""


def _itself(record: Any) -> Any:
    return record


@dataclass(order=True)
class Ranked:
    """Ordered by a part of what it has."""

    rank: int
    name: str = field(compare=False)


class OnlyLess:
    """Ordered by one comparison, which is all that sorting needs."""

    def __init__(self, rank: int, name: str) -> None:
        self.rank = rank
        self.name = name

    def __lt__(self, other: "OnlyLess") -> bool:
        return self.rank < other.rank


@pytest.mark.parametrize("kind", [Ranked, OnlyLess])
def test_records_that_compare_in_part_do_not_depend_on_how_they_came(kind: type) -> None:
    """Where they leave themselves equal their content decides, for all of them and for the greatest."""
    found, greatest, least = set(), set(), set()
    for turn in range(6):
        rows = [kind(1, name) for name in "abcde"] + [kind(0, "f")]
        rows = rows[turn:] + rows[:turn]
        for workers in (1, 2):
            passed = in_order(lambda stream: stream.sort(), rows[:3], rows[3:], workers=workers)
            found.add("".join(row.name for row in passed))
            (first,) = in_order(lambda stream: stream.top_k(1), rows[:3], rows[3:], workers=workers)
            greatest.add(first.name)
            (first,) = in_order(lambda stream: stream.deduplicate(_nothing, order=_itself), rows, workers=workers)
            least.add(first.name)
    assert (len(found), len(greatest), least) == (1, 1, {"f"})
    assert next(iter(found))[0] == "f"


def test_an_array_beside_a_table_is_sorted_by_name() -> None:
    """Its fields are columns there."""
    array = np.array([(1, "b"), (3, "a")], dtype=[("n", "i8"), ("w", "U2")])
    table = pa.table({"n": [2], "w": ["c"]})
    found = in_order(lambda stream: stream.sort("n"), array, table)
    assert found == [{"n": 1, "w": "b"}, {"n": 2, "w": "c"}, {"n": 3, "w": "a"}]
