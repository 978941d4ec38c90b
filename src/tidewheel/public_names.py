"""Modules whose public names are loaded when a program first uses them.

So a program that describes a dataflow does not load the engines, and a program that subscribes does not load operators.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def public_names(
    module: str, where: Mapping[str, Sequence[str]], submodules: Sequence[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a module.

    Args:
        module: the name of the module.
        where: for each module, the public names that are defined there.
        submodules: the submodules to load in the same way.
    """

    def elsewhere(name: str) -> str:
        doors = [] if name.startswith("_") else [f"tidewheel.{door}" for door in ("types", "errors", "progress")]
        there = [f"{door}.{name}" for door in doors if door != module and name in import_module(door).__all__]
        return f": it is {there[0]}" if there else ""

    home = {name: defining for defining, names in where.items() for name in names}
    public = sorted(home)
    home |= dict.fromkeys(submodules, "")

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {module!r} has no attribute {name!r}{elsewhere(name)}")
        found = getattr(import_module(home[name]), name) if home[name] else import_module(f"{module}.{name}")
        setattr(sys.modules[module], name, found)
        return found

    return public, load, lambda: sorted({*vars(sys.modules[module]), *home})
