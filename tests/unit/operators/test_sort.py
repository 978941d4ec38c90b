"""Sort: all records of an epoch in order, as one batch."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.unit.operators.harness import Case, cases, operator_settings, run, tag_with_worker
from tests.unit.operators.operator_case import OperatorCase, by_time, each_epoch, number_of
from tidewheel.runtime.batches import records


def _sorted_numbers(stream: tw.Stream[Any]) -> tw.Stream[Any]:
    """Sort, and make one record of each batch, since the cases compare bags."""
    return stream.sort(number_of).map_batches(lambda batch: [tuple(map(number_of, records(batch)))])


CASES = [
    OperatorCase("sort", lambda stream: stream.sort(number_of, reverse=True), each_epoch(list)),
    OperatorCase("sort", _sorted_numbers, each_epoch(lambda numbers: [tuple(sorted(numbers))]), name="one batch"),
]


def in_order(stream_of: Any, *batches: Any, workers: int = 2) -> list[Any]:
    """Return the records of the one batch that comes of some batches of one epoch."""
    flow = tw.Dataflow("test")
    stream_of(flow.source("records", tw.IterableSource([[(0, batch)] for batch in batches]))).capture("results")
    with tw.run(flow, workers=workers, engine="local") as job:
        job.wait()
        (result,) = job.captured("results")
    return records(result.batch)


@operator_settings(40)
@given(cases(), st.sampled_from((None, "n", ("n",), number_of)), st.booleans())
def test_an_epoch_is_one_batch_in_order(case: Case, order: Any, reverse: bool) -> None:
    """By themselves, by a column or by a function, either way round; a batch is of the kind that was sent."""
    by = order if callable(order) or case.kind.name in {"table", "record batch"} else None
    results = run(lambda stream: stream.sort(by, reverse=reverse), case)
    found = {result.time: [case.kind.number(record) for record in records(result.batch)] for result in results}
    assert found == {time: sorted(numbers, reverse=reverse) for time, numbers in by_time(case.feed).items()}
    assert len(found) == len(results)
    kinds = (list, pa.Table | pa.RecordBatch, np.ndarray)
    assert all(
        isinstance(result.batch, next(k for k in kinds if isinstance(case.kind.make([1]), k))) for result in results
    )


def test_it_comes_out_on_worker_0() -> None:
    """All of an epoch is in one place."""
    results = run(
        lambda stream: stream.exchange(lambda n: n).sort().unary("tag", tag_with_worker),
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


def test_in_a_loop_each_round_is_sorted() -> None:
    """One batch for each round."""

    def body(stream: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[list[int]]]:
        batches = stream.sort().map_batches(lambda batch: [list(batch)])
        return stream.map(lambda n: n - 2).filter(lambda n: n > 0), batches

    results = run(lambda stream: stream.iterate(body), Case([(0, [5, 3, 4])], workers=2))
    assert sorted(record for result in results for record in result.batch) == [[1], [1, 2, 3], [3, 4, 5]]


@pytest.mark.parametrize("order", [3, (), ["n"], ("n", 1)])
def test_an_order_that_is_none_is_refused(order: Any) -> None:
    """The error says what an order is, when the dataflow is described."""
    stream = tw.Dataflow("test").input("numbers")
    with pytest.raises(tw.GraphError, match=r"operator 'sort': order by a function of a record, .* not "):
        stream.sort(order)


@pytest.mark.parametrize(
    ("batch", "order", "what"),
    [
        ([1, "a"], None, r"records cannot be compared: '<' not supported .*; order by a function of a record"),
        ([1, "a"], lambda record: record, r"what the order has for records cannot be compared"),
        ([object(), open], lambda record: 0, r"the order does not tell <.*> and <.*> apart, and .* has no hash"),
        (pa.table({"a": [1]}), "b", r"KeyError: .*no column 'b' to order by; the batch has \['a'\]"),
        (np.array([1]), "b", r"KeyError: .*no field 'b' to order by; the array's dtype is int64"),
    ],
)
def test_what_cannot_be_ordered_is_an_error(batch: Any, order: Any, what: str) -> None:
    """The error names the operator and the time, and says what to do."""
    with pytest.raises(tw.JobError, match=f"(?s)operator 'sort' failed on worker 0 at time 0: .*{what}"):
        in_order(lambda stream: stream.sort(order), batch, workers=1)
