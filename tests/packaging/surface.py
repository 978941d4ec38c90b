"""The public surface: each public name with its signature and the first line of its docstring, as a file has it.

`python -m tests.packaging.surface` writes `tests/surface.txt` anew. So each change of what users type is a diff of it.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

FILE: Final = Path(__file__).parents[1] / "surface.txt"

DOORS: Final = (
    "tidewheel",
    "tidewheel.types",
    "tidewheel.errors",
    "tidewheel.progress",
    "tidewheel.connectors.datasets",
    "tidewheel.connectors.delta",
    "tidewheel.connectors.iceberg",
    "tidewheel.connectors.kafka",
    "tidewheel.connectors.nats",
    "tidewheel.connectors.postgres",
    "tidewheel.connectors.redis",
    "tidewheel.spark_bridge",
    "tidewheel.testing",
    "tidewheel.gateway",
    "tidewheel.console",
)
"""The modules from which users import."""

_HEADER: Final = "Written by `python -m tests.packaging.surface`."
_WIDTH: Final = 118
_CALLED: Final = (FunctionType, staticmethod, classmethod, property, cached_property)


def doors() -> dict[str, ModuleType]:
    """Return the modules from which users import, by name."""
    return {name: import_module(name) for name in DOORS}


def surface() -> str:
    """Return the text of the file."""
    return "\n".join([_HEADER, *(line for name, door in doors().items() for line in _of_door(name, door))]) + "\n"


def undocumented() -> Iterator[str]:
    """Yield the public classes, functions, methods and properties that have no docstring, or only a generated one."""
    for door_name, door in doors().items():
        for name in door.__all__:
            yield from (f"{door_name}.{path}" for path in _undocumented(name, getattr(door, name)))


def _undocumented(name: str, found: Any) -> Iterator[str]:
    if inspect.isfunction(found):
        if not found.__doc__:
            yield name
    elif inspect.isclass(found):
        if not found.__doc__ or found.__doc__.startswith(f"{found.__name__}("):  # as dataclasses write it
            yield name
        for member in dir(found):
            if member.startswith("_") or not _home(found, member).__module__.startswith("tidewheel"):
                continue
            static = inspect.getattr_static(found, member)
            if isinstance(static, _CALLED) and not inspect.getdoc(getattr(found, member)):
                yield f"{name}.{member}"


def _of_door(name: str, door: ModuleType) -> Iterator[str]:
    yield from ("", f"# {name}")
    for public in sorted(door.__all__):
        yield from _of_name(public, getattr(door, public))


def _of_name(name: str, found: Any) -> Iterator[str]:
    if inspect.isclass(found):
        yield f"class {name}{_signature(found)}"
        yield from _first_line(found, "    ")
        for member in sorted(dir(found)):
            if not member.startswith("_"):
                yield from _of_member(found, member)
    elif inspect.isfunction(found):
        yield f"{name}{_signature(found)}"
        yield from _first_line(found, "    ")
    else:
        yield f"{name}: {type(found).__name__ if name.isupper() else _plain(found)}"


def _of_member(owner: type, name: str) -> Iterator[str]:
    home = _home(owner, name)
    if not home.__module__.startswith("tidewheel"):  # what an exception or a tuple has
        return
    member = inspect.getattr_static(owner, name)
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    if not inspect.isfunction(member):
        yield f"    {name}"
    elif home is owner or not _is_public(home):
        yield f"    {name}{_signature(member)}"
        yield from _first_line(member, "        ")


def _home(owner: type, name: str) -> type:
    """Return the class of ``owner`` and its bases that defines an attribute."""
    return next(base for base in owner.__mro__ if name in vars(base))


def _is_public(made: type) -> bool:
    """Tell whether a class has a door of its own, so that its methods stand there."""
    name = made.__name__
    return any(name in door.__all__ and getattr(door, name) is made for door in doors().values())


def _signature(called: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return ""
    shown = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    return _plain(signature.replace(parameters=shown))


def _plain(shown: object) -> str:
    """Return the text of a signature or a type without modules and addresses."""
    text = re.sub(r" at 0x[0-9a-f]+", "", str(shown))
    text = re.sub(r"\b(?:tidewheel|collections|typing|pyarrow|os|pathlib)(?:\.\w+)*\.(?=[A-Z])", "", text)
    return re.sub(r"<(?:class|function) '?([\w.<>]+?)'?>(?=[,)]|$)", r"\1", text)


def _first_line(documented: Any, indent: str) -> Iterator[str]:
    line = (inspect.getdoc(documented) or "").partition("\n")[0]
    if line:
        yield f"{indent}{line}"


if __name__ == "__main__":
    FILE.write_text(surface(), encoding="utf-8")
