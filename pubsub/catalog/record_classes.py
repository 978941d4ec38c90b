"""The classes that a declared type permits for records."""

from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict

_ALSO: dict[Any, tuple[type, ...]] = {float: (float, int), complex: (complex, float, int)}
"""The classes that may stand for a type: by PEP 484, an int is a float."""


def classes_of(kind: Any) -> tuple[type, ...]:
    """Return the classes whose instances have a type, as for `isinstance`: a bool is an int.

    For ``tuple[str, int]`` it is the class of the whole; the elements are not checked.

    >>> classes_of(int | tuple[str, int]), classes_of(float)
    ((<class 'int'>, <class 'tuple'>), (<class 'float'>, <class 'int'>))

    Raises:
        TypeError: ``kind`` is no type.
    """
    origin = get_origin(kind)
    if kind is Any or getattr(kind, "_is_protocol", False):
        return (object,)
    if kind in _ALSO:
        return _ALSO[kind]
    if origin is Union or origin is UnionType:
        return tuple(found for part in get_args(kind) for found in classes_of(part))
    if origin is Literal:
        return tuple({type(value) for value in get_args(kind)})
    if origin is Annotated:
        return classes_of(get_args(kind)[0])
    if is_typeddict(kind):
        return (dict,)
    plain = getattr(kind, "__supertype__", origin or kind)
    if plain is not kind and not isinstance(plain, type):
        return classes_of(plain)
    if not isinstance(plain, type):
        raise TypeError(f"{kind!r} is no type")
    return (plain,)


def name_of(kind: Any) -> str:
    """Return a type in Python's notation: ``int``, ``tuple[str, int]``, ``shop.orders.Order``.

    >>> name_of(int), name_of(tuple[str, int])
    ('int', 'tuple[str, int]')
    """
    if not isinstance(kind, type) or get_origin(kind) is not None:
        return str(kind).removeprefix("typing.")
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
