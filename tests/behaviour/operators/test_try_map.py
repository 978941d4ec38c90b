"""The try_map operator."""

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, run


def test_both_outputs_keep_the_order() -> None:
    """Results and failures come at the time of the record, each in order."""
    case = Case([(0, [2, 0, 4]), (3, [0])])
    halves = run(lambda stream: stream.try_map(lambda n: 8 // n).results, case)
    failures = run(lambda stream: stream.try_map(lambda n: 8 // n).failures, case)
    assert [(result.time, result.batch) for result in halves] == [(0, [4, 2])]
    with pytest.raises(ZeroDivisionError) as by_zero:
        8 // 0  # noqa: B018 - Pythons have their own words for it
    failed = (0, "ZeroDivisionError", str(by_zero.value))
    assert [(result.time, result.batch) for result in failures] == [(0, [failed]), (3, [failed])]


def test_only_what_is_to_be_caught_is() -> None:
    """Any other exception fails the job as it would in `map`."""
    case = Case([(0, [1, 0])])
    failed = run(lambda stream: stream.try_map(lambda n: 1 // n, catch=(KeyError, ArithmeticError)).failures, case)
    assert [result.batch[0].error for result in failed] == ["ZeroDivisionError"]
    with raises(tw.JobError):
        run(lambda stream: stream.try_map(lambda n: 1 // n, catch=KeyError).failures, case)
