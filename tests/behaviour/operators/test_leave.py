"""The leave operator."""

from hypothesis import given

import tidewheel as tw
from tests.kit.operators.harness import Case, bags, cases, expected, operator_settings, run


@operator_settings()
@given(cases())
def test_entering_and_leaving_changes_nothing(case: Case) -> None:
    """Out of two loops, every record is back at its time, whatever its kind of batch."""

    def there_and_back(stream: tw.Stream[object]) -> tw.Stream[object]:
        with stream.flow.scope("loop") as loop:
            return stream.enter(loop).enter(loop.inner("inner")).leave().leave()

    assert bags(run(there_and_back, case), case.kind) == expected(case.feed)


@operator_settings()
@given(cases())
def test_leaving_forgets_the_round(case: Case) -> None:
    """Whatever the round in which records leave a loop, outside they are at the time at which they entered."""

    def body(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        return numbers.filter(lambda number: number > 0).map(lambda number: number - 1), numbers

    results = run(lambda stream: stream.map(lambda record: abs(case.kind.number(record))).iterate(body), case)
    assert bags(results) == expected(
        case.feed, lambda numbers: [left for number in numbers for left in range(abs(number) + 1)]
    )
