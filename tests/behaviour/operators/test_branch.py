"""The branch operator."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import KINDS, Case, cases, expected, operator_settings, run
from tests.kit.operators.operator_case import OperatorCase, each_epoch, number_of


def in_two(stream: tw.Stream[Any]) -> tw.Stream[Any]:
    """Mark the even numbers and the others."""
    even, odd = stream.branch(lambda record: number_of(record) % 2 == 0)
    return even.map(lambda record: ("even", number_of(record))).concat(
        odd.map(lambda record: ("odd", number_of(record)))
    )


def by_size(stream: tw.Stream[Any]) -> tw.Stream[Any]:
    """Mark small, middle-sized and other numbers, by predicates that overlap."""
    sizes = stream.branch(small=lambda record: number_of(record) < 5, middle=lambda record: number_of(record) < 20)
    small, middle, rest = (
        branch.map(lambda record, size=size: (size, number_of(record)))  # type: ignore[misc]
        for size, branch in [("small", sizes.small), ("middle", sizes.middle), ("rest", sizes.rest)]
    )
    return small.concat(middle, rest)


CASES = [
    OperatorCase(
        "branch",
        in_two,
        each_epoch(lambda numbers: [("even" if number % 2 == 0 else "odd", number) for number in numbers]),
    ),
    OperatorCase(
        "branch",
        by_size,
        each_epoch(
            lambda numbers: [("small" if n < 5 else "middle" if n < 20 else "rest", n) for n in numbers],
        ),
        name="names",
    ),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_comes_out_is_of_the_kind_that_went_in(kind: Any) -> None:
    """Each branch has its records in order, in batches of the same kind, and no empty ones."""
    case = Case([(0, [5, 1, 8, 2]), (1, [1, 2])], kind)
    for branch, wanted in [("matching", [(0, [5, 8])]), ("rest", [(0, [1, 2]), (1, [1, 2])])]:
        results = run(lambda stream: getattr(stream.branch(lambda record: number_of(record) > 2), branch), case)  # noqa: B023
        assert {type(result.batch) for result in results} == {type(kind.make([]))}
        rows = [(r.time, r.batch if isinstance(r.batch, list) else _rows(r.batch)) for r in results]
        assert rows == wanted


def _rows(batch: Any) -> list[int]:
    return [number_of(record) for record in (batch.to_pylist() if hasattr(batch, "to_pylist") else batch.tolist())]


@operator_settings(20)
@given(cases())
def test_later_predicates_are_only_asked_about_what_is_left(case: Case) -> None:
    """A predicate is called once for each record that none before it has taken."""
    asked: dict[str, list[int]] = {"first": [], "second": []}

    def asking(name: str, wanted: Callable[[int], bool]) -> Callable[[Any], bool]:
        def predicate(record: Any) -> bool:
            asked[name].append(number_of(record))
            return wanted(number_of(record))

        return predicate

    def describe(stream: tw.Stream[Any]) -> tw.Stream[Any]:
        return stream.branch(
            first=asking("first", lambda number: number > 9), second=asking("second", lambda number: number > 0)
        ).rest

    run(describe, case)
    numbers = sorted(number for bag in expected(case.feed).values() for number in bag.elements())
    assert sorted(asked["first"]) == numbers
    assert sorted(asked["second"]) == [number for number in numbers if number <= 9]


def test_branches_have_their_names() -> None:
    """Named branches are attributes, unpacked in order with the rest at the end; any other name is an error."""
    stream: tw.Stream[int] = tw.Dataflow("test").input("numbers")
    branches = stream.branch(count=bool, index=bool)
    assert list(branches) == [branches.count, branches.index, branches.rest]
    assert len(branches) == 3
    assert {"count", "index", "rest"} <= set(dir(branches))
    with raises(AttributeError):
        _ = branches.cuont
    assert not hasattr(branches, "_rest")


@pytest.mark.parametrize(
    ("arguments", "names", "said"),
    [
        ((), {}, "branch takes a predicate"),
        ((bool,), {"even": bool}, "not both"),
        ((), {"rest": bool}, "cannot be named 'rest'"),
        ((), {"_streams": bool}, "cannot be named '_streams'"),
        ((3,), {}, "branch takes a function, not 3"),
        ((), {"even": "n"}, "branch takes a function, not 'n'"),
    ],
)
def test_what_is_no_branch_is_refused(arguments: tuple[Any, ...], names: dict[str, Any], said: str) -> None:
    """The error comes when the dataflow is described."""
    stream: Any = tw.Dataflow("test").input("numbers")
    with pytest.raises(tw.GraphError, match=said):
        stream.branch(*arguments, **names)
