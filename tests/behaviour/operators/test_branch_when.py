"""The branch_when operator."""

from typing import Any

from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import Case, cases, operator_settings, run


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
