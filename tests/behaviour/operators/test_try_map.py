"""The try_map operator."""

from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, run
from tests.kit.operators.operator_case import OperatorCase, each_epoch, number_of


def invert(number: int) -> int:
    """Return what number times the result, modulo 7, is one."""
    return pow(number, -1, 7)


def inverses(stream: tw.Stream[Any]) -> tw.Stream[Any]:
    """Return the inverses, and the numbers that have none with the error."""
    results, failures = stream.try_map(lambda record: invert(number_of(record)))
    return results.concat(
        failures.map(lambda failed: (number_of(failed.record), failed.error, failed.message))  # type: ignore[arg-type, return-value]
    )


CASES = [
    OperatorCase(
        "try_map",
        inverses,
        each_epoch(
            lambda numbers: [
                invert(number) if number % 7 else (number, "ValueError", "base is not invertible for the given modulus")
                for number in numbers
            ]
        ),
    )
]


def test_both_outputs_keep_the_order() -> None:
    """Results and failures come at the time of the record, each in order."""
    case = Case([(0, [2, 0, 4]), (3, [0])])
    halves = run(lambda stream: stream.try_map(lambda n: 8 // n).results, case)
    failures = run(lambda stream: stream.try_map(lambda n: 8 // n).failures, case)
    assert [(result.time, result.batch) for result in halves] == [(0, [4, 2])]
    failed = (0, "ZeroDivisionError", "integer division or modulo by zero")
    assert [(result.time, result.batch) for result in failures] == [(0, [failed]), (3, [failed])]


def test_only_what_is_to_be_caught_is() -> None:
    """Any other exception fails the job as it would in `map`."""
    case = Case([(0, [1, 0])])
    failed = run(lambda stream: stream.try_map(lambda n: 1 // n, catch=(KeyError, ArithmeticError)).failures, case)
    assert [result.batch[0].error for result in failed] == ["ZeroDivisionError"]
    with raises(tw.JobError):
        run(lambda stream: stream.try_map(lambda n: 1 // n, catch=KeyError).failures, case)


@pytest.mark.parametrize("catch", [(), "ValueError", BaseException, KeyboardInterrupt, (ValueError, 3), None])
def test_only_exceptions_are_caught(catch: Any) -> None:
    """What would end the process is none of them."""
    stream: tw.Stream[int] = tw.Dataflow("test").input("numbers")
    with raises(tw.GraphError):
        stream.try_map(str, catch)
