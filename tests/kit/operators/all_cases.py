"""The cases of all operators, from their test files, and the operators that have to have one."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import tidewheel as tw
from tests.kit.operators.operator_case import OperatorCase

_TESTS = Path(__file__).parents[2]
_FOLDERS = ("behaviour", "unit")
_OF_ALL = {"test_every_operator", "test_state_is_found"}
"""The tests that run the cases of all others."""


def all_cases() -> list[OperatorCase]:
    """Return the ``CASES`` of the test files of operators."""
    files = [file for folder in _FOLDERS for file in (_TESTS / folder / "operators").rglob("test_*.py")]
    names = sorted(".".join(("tests", *file.relative_to(_TESTS).with_suffix("").parts)) for file in files)
    modules = [import_module(name) for name in names if name.rpartition(".")[2] not in _OF_ALL]
    return [case for module in modules for case in getattr(module, "CASES", [])]


def operators() -> Iterator[str]:
    """Yield the names of the methods of a stream."""
    for name, member in inspect.getmembers(tw.Stream):
        if not name.startswith("_") and inspect.isfunction(member):
            yield name
