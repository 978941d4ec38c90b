"""The inspect_batches operator."""

from typing import Any

from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import Case, bags, cases, expected, operator_settings, run


@operator_settings()
@given(cases())
def test_the_batch_that_is_seen_is_the_one_that_goes_on(case: Case) -> None:
    """The function gets each batch, of any kind, with its time and worker; downstream has the same object."""
    seen: list[tuple[Any, Any, int]] = []

    def look(batch: Any, time: int, worker: int) -> bool:
        seen.append((time, batch, worker))
        return False

    results = run(lambda stream: stream.inspect_batches(look), case)
    assert {id(result.batch) for result in results} == {id(batch) for _, batch, _ in seen}
    assert bags([tw.types.Captured(time, batch) for time, batch, _ in seen], case.kind) == expected(case.feed)
    assert bags(results, case.kind) == expected(case.feed)
    assert {worker for *_, worker in seen} <= set(range(case.workers))
