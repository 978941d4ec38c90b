"""The identity of a class of the main program, by which another process finds its own version of the class.

In two runs or processes, the class has the same name, code and fields. So these make up its identity.
"""

import dataclasses
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from functools import cached_property, lru_cache
from hashlib import blake2b
from inspect import getattr_static
from itertools import islice
from types import CodeType, FunctionType, MemberDescriptorType
from typing import Any, NamedTuple

PROGRAM = "__main__"
"""The module of the main program, which no other process can import."""

_MARK = "main:"
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))
_PARTS: dict[type, Callable[[Any], Iterable[Any]]] = {
    CodeType: lambda code: (code.co_code, code.co_names, code.co_varnames, code.co_freevars, *code.co_consts),
    FunctionType: lambda function: (function.__code__, function.__defaults__, function.__kwdefaults__),
    staticmethod: lambda method: (method.__func__,),
    classmethod: lambda method: (method.__func__,),
    property: lambda one: (one.fget, one.fset, one.fdel),
    cached_property: lambda one: (one.func,),
    dataclasses.Field: lambda field: (field.name, field.default, field.default_factory),
    list: iter,
    tuple: iter,
    dict: dict.items,
    set: iter,
    frozenset: iter,
}
"""By type, the parts of a value that its digest covers. For other types, the digest covers only the type."""
_UNORDERED = (dict, set, frozenset)
_DEEPEST, _MOST_PARTS = 8, 10_000
_METHODS = (FunctionType, staticmethod, classmethod, property)
_SAID = ("__annotations__", "__slots__")
_OWN_PICKLING = ("__setstate__", "__reduce__", "__reduce_ex__")


class ClassDefinition(NamedTuple):
    """The definition of a class that is at the top level of the main program, or nested in such a class.

    Attributes:
        code: a digest of its methods and attributes, and of base classes and a metaclass of the main program.
        fields: the fields of an instance, or members of an Enum, in order; None if unknown.
        replaced: the digests of earlier definitions in the same run, as in a notebook.
    """

    name: str
    code: str
    fields: tuple[str, ...] | None
    replaced: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return _MARK + json.dumps(self)

    def is_replaced_by(self, other: "ClassDefinition") -> bool:
        return self.code in other.replaced


def definition_of(kind: type, replaced: Collection[str] = ()) -> ClassDefinition:
    code = blake2b(repr(_form_of_class(kind)).encode(), digest_size=8).hexdigest()
    return ClassDefinition(kind.__qualname__, code, _fields(kind), tuple(one for one in replaced if one != code))


@lru_cache(maxsize=1024)
def parsed(text: str) -> ClassDefinition | None:
    if not text.startswith(_MARK):
        return None
    name, code, fields, replaced = json.loads(text[len(_MARK) :])
    return ClassDefinition(name, code, None if fields is None else tuple(fields), tuple(replaced))


def class_of_program(name: str) -> type | None:
    found: Any = sys.modules.get(PROGRAM)
    for part in name.split("."):
        found = getattr(found, part, None)
    is_it = isinstance(found, type) and found.__module__ == PROGRAM and found.__qualname__ == name
    return found if is_it else None


def can_read(kind: type, fields: tuple[str, ...] | None) -> bool:
    """Tell whether instances pickled with the given fields can be unpickled as this class.

    They can if the fields are the same, if the class has appended only fields with defaults, or if it controls its
    unpickling, as by ``__setstate__``. An Enum needs all members.
    """
    has = _fields(kind)
    if has is None or fields is None or has == fields or _has_own_pickling(kind):
        return True
    if issubclass(kind, Enum):
        return set(fields) <= set(has)
    return has[: len(fields)] == fields and all(_has_default(kind, name) for name in has[len(fields) :])


def _fields(kind: type) -> tuple[str, ...] | None:
    if issubclass(kind, Enum):
        return tuple(f"{name}={_form(member.value)!r:.40}" for name, member in kind.__members__.items())
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return tuple(kind._fields)
    return tuple(vars(kind).get("__annotations__", ())) or None


def _has_default(kind: type, name: str) -> bool:
    if issubclass(kind, tuple):
        return name in getattr(kind, "_field_defaults", ())
    default = getattr_static(kind, name, dataclasses.MISSING)
    return default is not dataclasses.MISSING and not isinstance(default, MemberDescriptorType)


def _has_own_pickling(kind: type) -> bool:
    methods = [vars(one).get(name) for one in kind.__mro__ if one.__module__ == PROGRAM for name in _OWN_PICKLING]
    return any(getattr(method, "__module__", None) == PROGRAM for method in methods)


def _form_of_class(kind: type) -> list[Any]:
    parents = (*kind.__bases__, type(kind))
    forms = [_form_of_class(one) if one.__module__ == PROGRAM else _name(one) for one in parents]
    return [_name(kind), forms, sorted(_attributes(kind)), _fields(kind)]


def _attributes(kind: type) -> Iterator[tuple[str, str]]:
    for name, value in vars(kind).items():
        # Python and libraries add other attributes with such names, some of them only when the class is used.
        if not name.startswith("__") or name in _SAID or isinstance(value, _METHODS):
            yield name, repr(_form(value))


def _form(value: Any, depth: int = 0) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    parts = _PARTS.get(kind)
    if parts is None or depth > _DEEPEST:
        return _name(value if isinstance(value, type) else kind)
    forms = [_form(part, depth + 1) for part in islice(parts(value), _MOST_PARTS)]
    return sorted(map(repr, forms)) if kind in _UNORDERED else forms


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
