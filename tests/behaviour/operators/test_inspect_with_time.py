"""The inspect_with_time operator."""

from collections import Counter
from typing import Any

from hypothesis import given

from tests.kit.operators.harness import Case, bags, cases, expected, operator_settings, run


@operator_settings()
@given(cases())
def test_each_record_is_seen_with_its_time_and_worker(case: Case) -> None:
    """The function is called once for each record; batches go on as they are, on the workers where they were."""
    seen: dict[Any, Counter[int]] = {}
    workers = set()

    def look(record: Any, time: int, worker: int) -> None:
        seen.setdefault(time, Counter())[case.kind.number(record)] += 1
        workers.add(worker)

    results = run(lambda stream: stream.inspect_with_time(look), case)
    assert bags(results, case.kind) == expected(case.feed) == seen
    assert {type(result.batch) for result in results} <= {type(case.kind.make([]))}
    assert workers == {number % case.workers for number in range(sum(1 for _, batch in case.feed if batch))}
