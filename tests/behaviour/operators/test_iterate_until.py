"""Loops that a test of whole rounds ends: the records, rounds and workers of an epoch together, against Python."""

from collections import Counter
from functools import partial
from itertools import pairwise
from operator import add
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import (
    DEADLINE_S,
    Case,
    bags,
    run,
    send,
)

# ---------------------------------------------------------------------- rounds


Passed = list[tuple[int, int]]
"""(epoch, round) of all records where they come out of the body, in the order of events on all workers."""


def rounds_passed(limits: dict[str, Any]) -> Passed:
    """Return what passed a body in which one of two workers has much more to do."""
    passed: Passed = []

    def body(numbers: tw.Stream[int]) -> tw.Stream[int]:
        small, large = numbers.branch(lambda n: n < 100)
        for hop in range(6):
            large = large.exchange(partial(add, hop))  # to and fro between the workers
        together = small.concat(large)
        return together.inspect_batches(lambda batch, time, worker: passed.extend([time] * len(batch)))

    run(
        lambda stream: stream.iterate(body, **limits),
        Case([(epoch, [*range(4), *range(100, 104)]) for epoch in range(3)], workers=2),
    )
    return passed


def in_whole_rounds(passed: Passed) -> bool:
    """Tell whether no record passed in a round of its epoch when one had passed in a later round."""
    rounds = [[number for at, number in passed if at == epoch] for epoch in range(3)]
    return all(before <= after for numbers in rounds for before, after in pairwise(numbers))


def test_a_round_is_finished_everywhere_before_the_next_begins() -> None:
    """With a test or streams beside it the loop is bulk-synchronous; with a number of rounds alone it is not."""
    until = rounds_passed({"until": lambda count: False, "measure": lambda n: 1, "max_rounds": 6})
    assert in_whole_rounds(until)
    assert Counter(until) == {(epoch, number): 8 for epoch in range(3) for number in range(6)}
    assert not in_whole_rounds(rounds_passed({"max_rounds": 6}))


def test_an_epoch_that_is_done_does_not_wait_for_an_earlier_one() -> None:
    """Each epoch leaves when its own test says so, though one before it has many rounds to go."""
    results = run(
        lambda stream: stream.iterate(
            lambda numbers: numbers.map(lambda n: n - 1), until=lambda total: total <= 0, measure=lambda n: n
        ),
        Case([(0, [50]), (1, [3]), (2, [7])]),
    )
    assert [(result.time, result.batch) for result in results] == [(1, [0]), (2, [0]), (0, [0])]


def test_the_test_is_called_once_for_each_round() -> None:
    """So it may depend on something else, such as the clock: one worker decides for all of them."""
    asked: list[int] = []

    def until(total: int) -> bool:
        asked.append(total)
        return len(asked) == 5

    results = run(
        lambda stream: stream.iterate(
            lambda numbers: numbers.exchange(lambda n: n).map(lambda n: n + 1), until=until, measure=lambda n: n
        ),
        Case([(0, [*range(40)])], workers=4),
    )
    assert asked == [sum(range(40)) + 40 * more for more in range(1, 6)]
    assert bags(results) == {0: Counter(range(5, 45))}


def test_what_a_body_lets_leave_leaves_as_well() -> None:
    """As with a number of rounds: what the test finds is what is about to go round again."""
    results = run(
        lambda stream: stream.iterate(
            lambda numbers: numbers.map(lambda n: n // 2).branch(lambda n: n % 2 == 0),
            until=lambda most: most < 10,
            measure=lambda n: n,
            combine=max,
        ),
        Case([(0, [96, 40, 6, 14])]),
    )
    assert bags(results) == {0: Counter([3, 7, 5, 6])}


def test_arrow_stays_arrow() -> None:
    """Whether it leaves by the test, goes round again, or goes round beside."""
    rates = tw.IterableSource([[(0, pa.table({"n": [1, 2], "rate": [0.5, 0.25]}))]])
    flow = tw.Dataflow("test")
    rows = flow.source("rows", tw.IterableSource([[(0, pa.table({"n": [1, 2], "left": [8.0, 8.0]}))]]))

    def body(rows: tw.Stream[Any], rates: tw.Stream[Any]) -> tw.Stream[Any]:
        return rows.join(rates, "n").select("n", left=pc.field("left") * pc.field("rate"))

    rows.iterate(
        body, until=lambda total: total < 1, measure="left", beside=[flow.source("rates", rates)]
    ).inspect_batches(lambda batch, time, worker: batch.num_rows).capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait(DEADLINE_S)
        results = pa.concat_tables([result.batch for result in job.captured("results")])
    assert sorted(results.to_pylist(), key=lambda row: row["n"]) == [{"n": 1, "left": 0.5}, {"n": 2, "left": 0.03125}]


def test_what_goes_round_beside_ends_with_the_loop() -> None:
    """Though no test and no number of rounds ends it: when no records go round, nor does what is beside them."""
    rounds: list[int] = []

    def body(numbers: tw.Stream[int], others: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        others = others.inspect_batches(lambda batch, time, worker: rounds.extend([time[1]] * len(batch)))
        paired = numbers.join(others, lambda n: 0, lambda n: 0).map(lambda pair: pair[0] - 1)
        return paired.branch(lambda n: n > 0)

    flow = tw.Dataflow("test")
    numbers, others = flow.input("numbers", int), flow.input("others", int)
    numbers.iterate(body, beside=[others]).capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        send(job, "numbers", [(0, [4, 2]), (1, [])])
        send(job, "others", [(0, [1]), (1, [1])])
        job.wait(DEADLINE_S)
        results = bags(job.captured("results"))
    assert results == {0: Counter([0, 0])}
    assert sorted(rounds) == [0, 0, 1, 2, 3]


# ---------------------------------------------------------------------- misuse


def step(numbers: tw.Stream[Any]) -> tw.Stream[Any]:
    return numbers.map(lambda n: n + 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"until": 3, "measure": len}, "iterate 'walk', for until, takes a function, not 3"),
        ({"until": bool}, r"iterate 'walk': until= tests what measure= finds .* so give both"),
        ({"measure": len}, r"iterate 'walk': until= tests what measure= finds .* so give both"),
        ({"combine": max, "max_rounds": 3}, r"iterate 'walk': until= tests what measure= finds .* so give both"),
        ({"until": bool, "measure": 3}, r"\"iterate 'walk'\": measure is a function of a record, the name of a column"),
        ({"until": bool, "measure": len, "combine": 1}, "iterate 'walk', for combine, takes a function, not 1"),
        ({"max_rounds": 2, "beside": 3}, "'walk': beside is a list"),
        ({"max_rounds": 2, "beside": [3]}, "'walk' reads streams, not 3"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], said: str) -> None:
    """When the dataflow is described: the error names the loop."""
    with pytest.raises(tw.GraphError, match=said):
        tw.Dataflow("test").input("numbers").iterate(step, name="walk", **arguments)


def test_a_column_that_is_not_there_is_refused() -> None:
    """When the dataflow is described, if the columns of what goes round are known."""
    rows = tw.Dataflow("test").input("rows", pa.schema({"n": pa.int64()}))
    with raises(tw.GraphError):
        rows.iterate(lambda inner: inner.with_schema(pa.schema({"n": pa.int64()})), until=bool, measure="m")


def test_a_stream_of_another_scope_cannot_go_round_beside() -> None:
    """It has to be of the scope that the loop is in."""
    flow = tw.Dataflow("test")
    with flow.scope("elsewhere") as scope:
        within = flow.input("others").enter(scope)
        with raises(tw.GraphError):
            flow.input("numbers").iterate(lambda inner, other: inner.concat(other), max_rounds=2, beside=[within])


def test_substreams_have_to_be_put_together_before() -> None:
    """A test of a round is of all its records, so a divided stream is refused, and the error says what to do."""
    walks = tw.Dataflow("test").input("walks", int).substreams("walks", key=lambda n: n)
    with raises(tw.GraphError):
        walks.iterate(step, until=bool, measure=lambda n: n)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"until": lambda total: None, "measure": lambda n: n}, "'iterate/until' .*until returned None for 3: it must"),
        ({"until": bool, "measure": lambda n: None}, "'iterate/measure' .*measure and combine must return a value"),
        ({"until": lambda total: 1 / 0, "measure": lambda n: n}, "'iterate/until' .*division by zero"),
        ({"until": bool, "measure": "change"}, "'iterate/measure' .*'change' names a field"),
    ],
)
def test_a_test_that_fails_fails_the_job(arguments: dict[str, Any], said: str) -> None:
    """What ``until`` forgets to return would else be a loop without end; the error says where it is."""
    with pytest.raises(tw.JobError, match=rf"(?s){said}"):
        run(lambda stream: stream.iterate(step, **arguments), Case([(0, [2])]))
