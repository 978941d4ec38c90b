"""The map operator."""

from hypothesis import given

from tests.kit.operators.harness import Case, bags, cases, expected, operator_settings, run
from tests.kit.operators.operator_case import OperatorCase, each_epoch, number_of

CASES = [
    OperatorCase(
        "map",
        lambda stream: stream.map(lambda record: 3 * number_of(record) - 1),
        each_epoch(lambda numbers: [3 * number - 1 for number in numbers]),
    )
]


@operator_settings()
@given(cases())
def test_map_is_pythons_map(case: Case) -> None:
    """Each record is replaced once, at its time, however the input is split, whatever the kind of batch."""
    results = run(lambda stream: stream.map(lambda record: case.kind.number(record) * 2 + 1), case)
    assert bags(results) == expected(case.feed, lambda numbers: [number * 2 + 1 for number in numbers])


def test_map_keeps_order_and_batches() -> None:
    """On one worker, records come out in the order in which they went in, a batch for a batch."""
    case = Case([(0, [3, 1, 2]), (0, [5]), (1, [4])])
    results = run(lambda stream: stream.map(str), case)
    assert [(result.time, result.batch) for result in results] == [(0, ["3", "1", "2"]), (0, ["5"]), (1, ["4"])]
