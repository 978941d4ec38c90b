"""Aggregate without a start: the records of a key and epoch joined into one."""

import math
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import LISTS, Case, bags, run
from tests.kit.operators.operator_case import ONLY_ARROW, OperatorCase, each_epoch, number_of


def greater(one: Any, other: Any) -> Any:
    return one if number_of(one) >= number_of(other) else other


def greatest(numbers: list[int]) -> list[tuple[int, int]]:
    return [(key, max(n for n in numbers if n % 3 == key)) for key in {n % 3 for n in numbers}]


CASES = [
    OperatorCase(
        "aggregate",
        lambda stream: stream.aggregate(lambda record: number_of(record) % 3, add=greater),
        each_epoch(greatest),
        name="without a start",
    ),
    OperatorCase(
        "aggregate",
        lambda stream: stream.aggregate("n", add=lambda one, other: {"n": one["n"] + other["n"]}),
        each_epoch(lambda numbers: [(number, number * numbers.count(number)) for number in set(numbers)]),
        kinds=ONLY_ARROW,
        name="without a start, column",
    ),
    OperatorCase(
        "aggregate",
        lambda stream: stream.aggregate(lambda n: n < 0, add=lambda one, other: one * other),
        each_epoch(
            lambda numbers: [(key, math.prod(n for n in numbers if (n < 0) == key)) for key in {n < 0 for n in numbers}]
        ),
        kinds=(LISTS,),
        name="without a start, product",
    ),
]


def test_one_record_of_each_key_travels() -> None:
    """The function is applied before the exchange."""
    flow = tw.Dataflow("test")
    source = tw.IterableSource([[(0, list(range(100))) for _ in range(20)]])
    flow.source("numbers", source).aggregate(lambda n: n % 2, add=max).capture("results")
    with tw.run(flow, workers=2, engine="local") as job:
        job.wait()
        assert bags(job.captured("results")) == {0: {(0, 98): 1, (1, 99): 1}}
        assert sum(edge.records for edge in job.statistics().edges if edge.target.endswith("'aggregate'")) == 2


def test_a_single_record_is_its_own_result() -> None:
    """The function is not called where there is nothing to join."""
    results = run(
        lambda stream: stream.aggregate(lambda n: n, add=lambda one, other: 1 // 0), Case([(0, [1, 2])], workers=2)
    )
    assert bags(results) == {0: {(1, 1): 1, (2, 2): 1}}


def test_in_a_loop_each_round_is_reduced() -> None:
    """Records of a round are joined, and go on as those of the next."""

    def halve(stream: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        joined = stream.aggregate(lambda n: n % 2, add=lambda one, other: one + other).map(lambda pair: pair[1])
        return joined.filter(lambda n: n > 1).map(lambda n: n // 2), joined.filter(lambda n: n <= 1)

    # 6 + 2 and 1; then 4, 2, 1
    results = run(lambda stream: stream.iterate(halve), Case([(0, [6, 2, 1])], workers=2))
    assert bags(results) == {0: {1: 2}}


def test_what_is_no_function_is_refused() -> None:
    """When the dataflow is described."""
    stream: tw.Stream[int] = tw.Dataflow("test").input("numbers")
    with raises(tw.GraphError):
        stream.aggregate(lambda n: n, add=0)  # type: ignore[call-overload]


def test_a_function_that_returns_nothing_is_an_error() -> None:
    """The error says which records it was called with."""
    message = r"operator 'aggregate: partial' failed on worker 0 at time 0: TypeError: 2 was added to 1, and .* None"
    with pytest.raises(tw.JobError, match=message):
        run(lambda stream: stream.aggregate(lambda n: 0, add=lambda one, other: None), Case([(0, [1, 2])]))
