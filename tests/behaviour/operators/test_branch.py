"""The branch operator."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import Case, cases, expected, operator_settings, run
from tests.kit.operators.operator_case import number_of


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
