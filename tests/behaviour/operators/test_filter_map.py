"""The filter_map operator."""

from tests.kit.operators.harness import Case, run
from tests.kit.operators.operator_case import OperatorCase, each_epoch, number_of


def root_of(number: int) -> int | None:
    """Return the square root of a number that is a square."""
    return {0: 0, 1: 1, 4: 2, 9: 3, 16: 4, 25: 5}.get(number)


CASES = [
    OperatorCase(
        "filter_map",
        lambda stream: stream.filter_map(lambda record: root_of(number_of(record))),
        each_epoch(lambda numbers: [root for number in numbers if (root := root_of(number)) is not None]),
    )
]


def test_only_none_drops_a_record() -> None:
    """What is false, or empty, is a result like any other; each record is looked at once."""
    results = {"none": None, "zero": 0, "empty": "", "no": False}
    seen: list[str] = []

    def look_up(name: str) -> object:
        seen.append(name)
        return results[name]

    found = run(lambda stream: stream.map(list(results).__getitem__).filter_map(look_up), Case([(0, [0, 1, 2, 3])]))
    assert [result.batch for result in found] == [[0, "", False]]
    assert seen == list(results)
