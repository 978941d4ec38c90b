"""The inspect operator."""

from collections import Counter

from hypothesis import given

from tests.kit.operators.harness import Case, bags, cases, expected, operator_settings, run
from tests.kit.operators.operator_case import OperatorCase, each_epoch, number_of

CASES = [OperatorCase("inspect", lambda stream: stream.inspect(number_of), each_epoch(list))]


@operator_settings()
@given(cases())
def test_inspect_sees_each_record_once_and_changes_nothing(case: Case) -> None:
    """The function is called for each record; what it returns does not matter, and batches keep their kind."""
    seen: Counter[int] = Counter()

    def look(record: object) -> bool:
        seen[case.kind.number(record)] += 1
        return False

    results = run(lambda stream: stream.inspect(look), case)
    assert bags(results, case.kind) == expected(case.feed)
    assert {type(result.batch) for result in results} <= {type(case.kind.make([]))}
    assert seen == Counter(number for _, numbers in case.feed for number in numbers)
