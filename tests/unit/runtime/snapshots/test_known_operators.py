"""Which operator of a changed program goes on with what one in a snapshot has."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.messages import raises
from tidewheel.runtime.description.origin import Origin, parameter
from tidewheel.runtime.errors import SnapshotError
from tidewheel.runtime.snapshots.known_operators import Found, KnownOperator, find_operators, without_own_names


def add_one(total: int) -> int:
    return total + 1


def add_two(total: int) -> int:
    return total + 2


CONTENTS = {
    "a": {"step": parameter(add_one)},
    "b": {"step": parameter(add_two)},
    "c": {"step": parameter(len)},
    "5": {"step": parameter(add_one), "k": parameter(5)},
    "int": {"step": parameter(add_one), "records": parameter(int)},
    "str": {"step": parameter(add_one), "records": parameter(str)},
}


def unnamed(contents: str | list[str], inputs: tuple[str, ...] = ("words",)) -> list[KnownOperator]:
    """Return operators with the default name, as a dataflow names them."""
    names = ["op", *(f"op-{number}" for number in range(2, len(contents) + 1))]
    return [
        KnownOperator(name, "op", Origin("op", "", False, CONTENTS[content]), inputs, "state")
        for name, content in zip(names, contents, strict=False)
    ]


def named(name: str, content: str = "a", method: str = "op") -> KnownOperator:
    return KnownOperator(name, name, Origin(method, "", True, CONTENTS[content]), ("words",), "state")


def found(saved: list[KnownOperator], program: list[KnownOperator], **how: object) -> Found:
    return find_operators(saved, program, where="snapshot 1 in here", **how)  # type: ignore[arg-type]


@given(
    st.lists(st.sampled_from("abc"), max_size=6),
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from("abc")), max_size=3),
    st.booleans(),
)
def test_state_never_goes_to_another_operator(before: list[str], more: list[tuple[int, str]], removes: bool) -> None:
    """Operators without names are added anywhere, or removed: each goes on with its own state, or all are refused."""
    wide = list(enumerate(before))
    for place, content in more:
        wide.insert(min(place, len(wide)), (-1, content))
    small = [(number, content) for number, content in wide if number >= 0]
    had, has = (wide, small) if removes else (small, wide)
    sides = unnamed([content for _, content in had]), unnamed([content for _, content in has])
    tags = [
        {one.name: number for one, (number, _) in zip(side, tagged, strict=True)}
        for side, tagged in zip(sides, (had, has), strict=True)
    ]
    try:
        names = found(*sides).names
    except SnapshotError:
        assert more
        return
    for name, now in names.items():
        assert tags[0][name] == tags[1][now] != -1


def test_an_operator_is_found_once_it_has_a_name() -> None:
    """As a warning asks for names, giving them does not lose the state."""
    result = found(unnamed("ab"), [named("second", "b"), named("first", "a")])
    assert result.names == {"op": "first", "op-2": "second"}
    assert result.moved == result.names
    assert found([named("old")], [named("new")]).names == {}


def test_the_name_of_before_decides() -> None:
    """An operator that is given the name that another one had from its place goes on with that, whatever it does."""
    result = found(unnamed("ab"), [named("op", "b"), named("op-2", "a"), named("more", "c")])
    assert result.names == {"op": "op", "op-2": "op-2"}
    assert [one.name for one in result.changed] == ["op", "op-2"]


def test_another_function_is_said_unless_it_is_accepted() -> None:
    """With the arguments that changed; of another Python nothing is said of functions."""
    saved, program = [named("op", "a")], [named("op", "b")]
    assert found(saved, program).changed == [("op", ("step",))]
    assert found(saved, program, accept=["op"]).changed == []
    assert found(saved, program, compares_functions=False).changed == []
    assert found(saved, saved).changed == []


def test_another_argument_or_kind_is_refused() -> None:
    """Also if it is accepted; the error says what it was, what it is and what to do."""
    saved = [replace(named("op"), origin=Origin("op", "", True, {"k": parameter(3)}))]
    with raises(SnapshotError):
        found(saved, [named("op", "5")], accept=["op"])
    with raises(SnapshotError):
        found([named("op")], [named("op", method="other")], accept=["op"])


def test_another_type_is_refused_unless_it_is_accepted() -> None:
    """Only the program knows whether records of before fit."""
    saved, program = [named("op", "int")], [named("op", "str")]
    with raises(SnapshotError):
        found(saved, program)
    assert found(saved, program, accept=["op"]).names == {"op": "op"}


def test_arguments_that_one_of_both_does_not_know_are_not_compared() -> None:
    """A later release may have more of them, and say more of an operator."""
    assert found([named("op", "a")], [named("op", "5")]).names == {"op": "op"}
    assert found([named("op", method="")], [named("op")]).names == {"op": "op"}


def test_other_inputs_are_another_operator_if_it_has_no_name() -> None:
    """More or fewer inputs are the same one, which a name says as well."""
    assert found(unnamed("a"), unnamed("a", ("clicks", "words"))).names == {"op": "op"}
    with raises(SnapshotError):
        found(unnamed("a"), unnamed("a", ("clicks",)))
    assert found(unnamed("a"), [replace(named("op"), inputs=("clicks",))]).names == {"op": "op"}


def test_operators_that_keep_nothing_come_and_go() -> None:
    """They are found in their order, and no choice is refused."""
    nothing = [replace(one, keeps="") for one in unnamed("aa")]
    assert found(nothing, unnamed("aaa")).names == {"op": "op", "op-2": "op-2"}
    with raises(SnapshotError):
        found([replace(nothing[0], keeps="records"), nothing[1]], unnamed("aaa"))


def test_operators_with_state_and_no_name_are_told() -> None:
    """Those with the default name, and those that share one; not what keeps nothing, and no parts of others."""
    part = KnownOperator("op: partial", "op: partial", Origin("op", ": partial", False), (), "state")
    twice = [replace(named("x"), name=name) for name in ("x", "x-2")]
    empty = replace(unnamed("a")[0], name="e", base_name="e", keeps="")
    assert without_own_names([part, *unnamed("a"), named("mine"), *twice, empty]) == ["op", "x", "x-2"]
