"""The filter operator."""

from hypothesis import given

from tests.kit.operators.harness import Case, bags, cases, expected, operator_settings, run
from tests.kit.operators.operator_case import OperatorCase, each_epoch, number_of

CASES = [
    OperatorCase(
        "filter",
        lambda stream: stream.filter(lambda record: number_of(record) % 3),
        each_epoch(lambda numbers: [number for number in numbers if number % 3]),
    )
]


@operator_settings()
@given(cases())
def test_filter_is_pythons_filter(case: Case) -> None:
    """Exactly the records for which the predicate is true come out, as they were: it need not return a bool."""
    results = run(lambda stream: stream.filter(lambda record: case.kind.number(record) % 3), case)
    is_list_of_numbers = case.kind.name in {"list", "array"}
    assert bags(results, None if is_list_of_numbers else case.kind) == expected(
        case.feed, lambda numbers: [number for number in numbers if number % 3]
    )


def test_a_batch_of_which_nothing_is_left_is_not_sent() -> None:
    """What comes out has no empty batches, and keeps the order."""
    results = run(lambda stream: stream.filter(lambda number: number > 2), Case([(0, [1, 2]), (0, [4, 1, 3])]))
    assert [result.batch for result in results] == [[4, 3]]
