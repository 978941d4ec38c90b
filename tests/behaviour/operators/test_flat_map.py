"""The flat_map operator."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, bags, cases, expected, operator_settings, run
from tests.kit.operators.operator_case import OperatorCase, each_epoch, number_of

CASES = [
    OperatorCase(
        "flat_map",
        lambda stream: stream.flat_map(lambda record: [number_of(record)] * (number_of(record) % 3)),
        each_epoch(lambda numbers: [number for number in numbers for _ in range(number % 3)]),
    )
]


@operator_settings()
@given(cases())
def test_flat_map_sends_all_that_the_function_yields(case: Case) -> None:
    """A record becomes none, one or several, at its time; a generator will do."""

    def countdown(record: Any) -> Iterator[int]:
        yield from range(case.kind.number(record) % 4)

    results = run(lambda stream: stream.flat_map(countdown), case)
    assert bags(results) == expected(
        case.feed, lambda numbers: [each for number in numbers for each in range(number % 4)]
    )


def test_something_that_yields_nothing_iterable_is_an_error() -> None:
    """A function that returns a single record is told from one that returns several."""
    with raises(tw.JobError):
        run(lambda stream: stream.flat_map(lambda record: record), Case([(0, [1])]))
