"""Main programs that are not run: modules that take the place of ``__main__`` for a while."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


def program(*cells: str) -> ModuleType:
    """Make a main program of the source of its cells."""
    made = ModuleType("__main__")
    for cell in ("from dataclasses import dataclass\nfrom enum import Enum\nfrom typing import NamedTuple\n", *cells):
        with runs(made):
            execute(made, cell)
    return made


def execute(made: ModuleType, cell: str) -> None:
    """Execute a cell in a main program."""
    exec(compile(cell, "<cell>", "exec"), made.__dict__)


@contextmanager
def runs(made: ModuleType) -> Iterator[Any]:
    """Have a main program in place of this process's for as long as the block lasts."""
    before = sys.modules["__main__"]
    sys.modules["__main__"] = made
    try:
        yield made
    finally:
        sys.modules["__main__"] = before
