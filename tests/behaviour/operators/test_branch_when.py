"""The branch_when operator."""

from collections import Counter
from typing import Any

from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import Case, cases, operator_settings, run
from tests.kit.operators.operator_case import OperatorCase, by_time, number_of


def parity(stream: tw.Stream[Any]) -> tw.Stream[Any]:
    """Mark what comes at even times and what comes at the others."""
    even, odd = stream.branch_when(lambda time: time % 2 == 0)
    return even.map(lambda record: ("even", number_of(record))).concat(
        odd.map(lambda record: ("odd", number_of(record)))
    )


def marked(feed: list[tuple[int, list[int]]]) -> dict[Any, Any]:
    """Mark numbers by the parity of their times."""
    return {
        time: Counter(("odd" if time % 2 else "even", number) for number in numbers)
        for time, numbers in by_time(feed).items()
    }


CASES = [OperatorCase("branch_when", parity, marked)]


@operator_settings(20)
@given(cases())
def test_batches_are_not_taken_apart(case: Case) -> None:
    """The predicate is asked once a batch, and each batch goes on as the same object."""
    seen: list[int] = []
    asked: list[int] = []

    def predicate(time: int) -> bool:
        asked.append(time)
        return True

    def describe(stream: tw.Stream[Any]) -> tw.Stream[Any]:
        return (
            stream.inspect_batches(lambda batch, time, worker: seen.append(id(batch))).branch_when(predicate).matching
        )

    results = run(describe, case)
    assert sorted(id(result.batch) for result in results) == sorted(seen)
    assert len(asked) == len(results)
