"""Definitions of classes of the main program: equal for equal code, and what can read what."""

from typing import Any

import pytest

from tests.kit.classes.main_programs import program, runs
from tidewheel.host.class_definition import ClassDefinition, can_read, class_of_program, definition_of, parsed

POINT = """
@dataclass{arguments}
class Point:
    x: int
    y: int = 3
    def far(self):
        return self.x * {by}
"""
CELLS = {
    "dataclass": POINT.format(arguments="(frozen=True)", by=10),
    "another method": POINT.format(arguments="(frozen=True)", by=11),
    "slots": POINT.format(arguments="(slots=True)", by=10),
    "another default": POINT.format(arguments="", by=10).replace("= 3", "= 4"),
    "tuple": "class Point(NamedTuple):\n    x: int\n    y: int = 3\n",
    "enum": "class Point(Enum):\n    A = 1\n    B = {1, 2}\n",
    "other members": "class Point(Enum):\n    A = 2\n    B = {1, 2}\n",
    "base": "class Base:\n    z = 1\nclass Point(Base): pass\n",
    "another base": "class Base:\n    z = 2\nclass Point(Base): pass\n",
    "metaclass": "class Meta(type): pass\nclass Point(metaclass=Meta): pass\n",
    "constants": "class Point:\n    n = [{'a', 'b'}, {'k': 2.5}]\n    @property\n    def p(self): return {'x', 'y'}\n",
}


def point(cell: str) -> Any:
    return program(cell).__dict__["Point"]


def definition(cell: str) -> ClassDefinition:
    return definition_of(point(cell))


@pytest.mark.parametrize("kind", CELLS)
def test_equal_code_has_an_equal_definition(kind: str) -> None:
    """Also if it stands on other lines, and once the class has been used."""
    first = point(CELLS[kind])
    before = definition_of(first)
    hash(first)
    assert definition_of(first) == before == definition("\n\n\n# moved\n" + CELLS[kind])
    assert parsed(before.text) == before


def test_other_code_has_another_definition() -> None:
    """Whatever of the class is another: a method, a default, a member, or a base class."""
    codes = {kind: definition(cell).code for kind, cell in CELLS.items()}
    assert len(set(codes.values())) == len(CELLS), codes


def test_an_id_of_another_kind_is_no_definition() -> None:
    """Such as the random ones of cloudpickle."""
    assert parsed("0f2b") is None


@pytest.mark.parametrize(
    ("before", "now", "can"),
    [
        ("class P(NamedTuple):\n    x: int", "class P(NamedTuple):\n    x: int\n    y: int = 1", True),
        ("class P(NamedTuple):\n    x: int", "class P(NamedTuple):\n    x: int\n    y: int", False),
        ("class P(NamedTuple):\n    x: int\n    y: int", "class P(NamedTuple):\n    y: int\n    x: int", False),
        ("@dataclass\nclass P:\n    x: int", "@dataclass\nclass P:\n    x: float\n    y: int = 1", True),
        ("@dataclass\nclass P:\n    x: int", "@dataclass\nclass P:\n    x: int\n    y: int", False),
        ("@dataclass\nclass P:\n    x: int\n    y: int", "@dataclass\nclass P:\n    x: int", False),
        (
            "@dataclass(slots=True)\nclass P:\n    x: int",
            "@dataclass(slots=True)\nclass P:\n    x: int\n    y: int = 1",
            False,
        ),
        (
            "@dataclass\nclass P:\n    x: int",
            "@dataclass\nclass P:\n    y: int\n    def __setstate__(self, state): self.y = state['x']",
            True,
        ),
        ("class P(Enum):\n    A = 1", "class P(Enum):\n    B = 2\n    A = 1", True),
        ("class P(Enum):\n    A = 1\n    B = 2", "class P(Enum):\n    A = 1", False),
        ("class P(Enum):\n    A = 1\n    B = 2", "class P(Enum):\n    A = 2\n    B = 1", False),
        ("class P:\n    def __init__(self): self.x = 1", "class P:\n    def __init__(self): self.y = 1", True),
    ],
)
def test_a_class_reads_fields_that_it_has_or_says_how_to(before: str, now: str, can: bool) -> None:
    """Fields with defaults may be appended, and members added. A class without fields is as one of a module."""
    old = definition_of(program(before).__dict__["P"])
    assert can_read(program(now).__dict__["P"], old.fields) is can


def test_a_class_is_found_by_its_qualified_name() -> None:
    """If the program has it, and not just something of that name."""
    with runs(
        program("class Outer:\n    class Inner: pass\nfunction = print\nalias = Outer\nfrom fractions import Fraction")
    ) as main:
        assert class_of_program("Outer.Inner") is main.Outer.Inner
        assert [class_of_program(name) for name in ("function", "alias", "Fraction", "gone", "Outer.gone")] == [
            None
        ] * 5
