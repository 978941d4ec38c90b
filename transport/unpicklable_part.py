"""Finds the part of an object that cannot be pickled, for error messages."""

import inspect
import types
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from tidewheel.transport.frames import unpicklable

_DEEPEST = 10
_MOST_ITEMS = 100
_OWN = "tidewheel."


def way_to_unpicklable(value: Any) -> str:
    """Return the path from an object to the part that cannot be pickled; empty if there is no such part.

    The path leaves out wrappers that tidewheel puts around user functions. Complexity: one pickle for each name on the
    path and each of its siblings.
    """
    names = [_name(value)]
    for _ in range(_DEEPEST):
        found = next(((name, part) for name, part in _parts(value) if unpicklable(part) is not None), None)
        if found is None:
            break
        name, part = found
        names.append(_name(part) or ("" if _is_own(value) else name))
        value = part
    return " > ".join(filter(None, names))


def _name(value: Any) -> str:
    is_function = isinstance(value, types.FunctionType) and not _is_own(value)
    return value.__qualname__.rpartition("<locals>.")[2] if is_function else ""


def _is_own(value: Any) -> bool:
    if isinstance(value, partial):
        return _is_own(value.func)
    module = getattr(value, "__module__", None)
    return isinstance(module, str) and module.startswith(_OWN)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case types.FunctionType():
            used = inspect.getclosurevars(value)
            yield from {**used.nonlocals, **used.globals}.items()
            given = inspect.signature(value).parameters.values()
            yield from ((one.name, one.default) for one in given if one.default is not one.empty)
        case types.MethodType():
            yield "self", value.__self__
        case partial():
            yield from _items((value.func, *value.args))
            yield from value.keywords.items()
        case Mapping():
            yield from ((f"[{key!r:.40}]", part) for key, part in islice(value.items(), _MOST_ITEMS))
        case list() | tuple() | set() | frozenset():
            yield from _items(value)
        case _:
            slots = {
                name: getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)
            }
            yield from {**slots, **getattr(value, "__dict__", {})}.items()


def _items(parts: Any) -> Iterator[tuple[str, Any]]:
    yield from ((f"[{number}]", part) for number, part in enumerate(islice(parts, _MOST_ITEMS)))
