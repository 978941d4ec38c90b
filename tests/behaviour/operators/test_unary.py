"""The unary operator: tokens held until a frontier says that a time is complete."""

from collections import Counter

from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import Case, bags, cases, expected, gather, operator_settings, run
from tidewheel.runtime.description.plan import Schedule


@operator_settings()
@given(cases())
def test_counts_by_key_are_pythons(case: Case) -> None:
    """With records exchanged by key, each key of a time is counted once, by one worker, and completely."""

    def count(numbers: list[int]) -> list[tuple[int, int]]:
        return list(Counter(number % 5 for number in numbers).items())

    results = run(
        lambda stream: (
            stream.map(case.kind.number)
            .unary(gather, exchange=lambda number: number % 5, name="collect")
            .map_batches(count)
        ),
        case,
    )
    assert bags(results) == expected(case.feed, count)


def test_records_stay_on_their_worker_without_an_exchange() -> None:
    """Only an exchange moves records: each worker collects what the input gave it."""
    results = run(lambda stream: stream.unary(gather, name="sort"), Case([(0, [2]), (0, [1]), (0, [0])], workers=2))
    assert [result.batch for result in results] == [[0, 2], [1]]


def test_a_state_lives_as_long_as_the_job() -> None:
    """Build runs once a worker and job; what it keeps is seen by all later calls, and by no other job."""

    def build(context: tw.OperatorContext) -> Schedule:
        seen: set[int] = set()

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for token, batch in input:
                output.send(token, [number for number in batch if number not in seen])
                seen.update(batch)

        return schedule

    for _ in range(2):
        results = run(lambda stream: stream.unary(build, name="distinct"), Case([(0, [1, 2]), (1, [2, 3]), (2, [1])]))
        assert [(result.time, result.batch) for result in results] == [(0, [1, 2]), (1, [3])]
