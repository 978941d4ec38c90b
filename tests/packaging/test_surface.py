"""The public surface is what a file says, and each public name has one place."""

import ast
from collections import Counter
from importlib import import_module

import pytest

from tests.packaging.repository import FACADE
from tests.packaging.surface import FILE, doors, surface, undocumented


def test_the_surface_is_the_one_in_the_file() -> None:
    """A change of a name, a signature or the first line of a docstring is a change of the file, which a reader sees."""
    text = surface()
    written = FILE.read_text(encoding="utf-8")
    assert written == text, "run `python -m tests.packaging.surface` and read the diff as a user would"


def test_each_public_name_has_one_door() -> None:
    """No program has to choose between two ways to import the same. `tidewheel.progress` has its errors, too."""
    found = Counter(name for door in doors().values() for name in door.__all__)
    assert {name for name, times in found.items() if times > 1} == {"GraphError", "TidewheelError"}


def test_each_public_name_has_a_docstring() -> None:
    """Users read them, in `help` and in the reference. Ruff asks for none (D101 to D103): names inside say enough."""
    assert not list(undocumented())


def test_the_top_is_short() -> None:
    """A newcomer reads all of it. A name that a program only gets, and does not type, is in `tidewheel.types`."""
    assert len(doors()["tidewheel"].__all__) <= 41


@pytest.mark.parametrize("name", ["__init__", "types", "errors"])
def test_type_checkers_find_what_programs_find(name: str) -> None:
    """The imports for type checkers name the same modules as the table from which names load."""
    tree = ast.parse((FACADE / f"{name}.py").read_text(encoding="utf-8"))
    imported = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "tidewheel"
        for alias in node.names
        if alias.asname == alias.name
    }
    table = import_module(f"tidewheel.{name}" if name != "__init__" else "tidewheel")._WHERE
    assert imported == {(module, public) for module, names in table.items() for public in names}
