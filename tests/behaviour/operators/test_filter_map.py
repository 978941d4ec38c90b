"""The filter_map operator."""

from tests.kit.operators.harness import Case, run


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
