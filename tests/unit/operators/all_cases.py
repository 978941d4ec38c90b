"""The cases of all operators, from the test files beside this one, and the operators that have to have one."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import tidewheel as tw
from tests.unit.operators.operator_case import OperatorCase

_OF_ALL = {"test_every_operator", "test_state_is_found"}
"""The tests that run the cases of all others."""


def all_cases() -> list[OperatorCase]:
    """Return the ``CASES`` of every ``test_*.py`` here."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py") if path.stem not in _OF_ALL)
    modules = [import_module(f"tests.unit.operators.{name}") for name in names]
    return [case for module in modules for case in getattr(module, "CASES", [])]


def operators() -> Iterator[str]:
    """Yield the names of the methods of a stream."""
    for name, member in inspect.getmembers(tw.Stream):
        if not name.startswith("_") and inspect.isfunction(member):
            yield name
