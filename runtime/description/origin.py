"""The origin of an operator: the method that adds it, and the method's arguments.

A changed program finds the state of an operator by name. But the name may now belong to another operator, or the
arguments may have changed. The origin tells whether the state still fits.

`adds_operators` decorates the methods of streams that add operators with state. If such methods call each other, the
outermost call is the origin.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, time, timedelta
from enum import Enum
from functools import cached_property, partial, wraps
from hashlib import sha256
from numbers import Number
from types import CodeType, FunctionType, GenericAlias, MethodType, UnionType
from typing import Any, TypeVar, cast, get_origin

Method = TypeVar("Method", bound=Callable[..., Any])

_LONGEST = 200
_PLAIN = (Number, str, bytes, date, time, timedelta, Enum, type(None))
_ANY = "(...)"
"""The text that replaces a function or type within a value."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument as text.

    Attributes:
        types: the types and schemas in the argument, in order.
    """

    value: str
    types: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join(self.types) if self.value == _ANY and self.types else self.value.replace(_ANY, "a function")


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an operator.

    Attributes:
        method: the name of the method; empty if the method is not decorated.
        part: the operator's name within the method, such as ``": partial"``; empty for the main operator.
        parameters: the arguments on which the state depends, by name.
    """

    method: str = ""
    part: str = ""
    is_named: bool = True
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


class _Call:
    def __init__(self, method: str, arguments: Mapping[str, Any], aside: tuple[str, ...], *, is_named: bool) -> None:
        self._method = method
        self._arguments = arguments
        self._aside = ("self", "name", *aside)
        self._is_named = is_named

    def origin(self, operator: str) -> Origin:
        part = operator.removeprefix(str(self._arguments.get("name", "")))
        return Origin(self._method, part, self._is_named, self._parameters)

    @cached_property
    def _parameters(self) -> Mapping[str, Parameter]:
        given = {name: value for name, value in self._arguments.items() if name not in self._aside}
        schema = getattr(self._arguments.get("self"), "schema", None)
        return {name: parameter(value) for name, value in {**given, "the stream": schema}.items()}


_CALL: ContextVar[_Call | None] = ContextVar("_CALL", default=None)


def adds_operators(*aside: str, method: str = "") -> Callable[[Method], Method]:
    """Decorate a method that adds operators, to make it their origin.

    Args:
        aside: the names of arguments on which the state does not depend.
        method: the public name of the method, if it differs from the function's; also the default name of the operator.
    """

    def decorate(function: Method) -> Method:
        signature = None

        @wraps(function)
        def adding(*args: Any, **kwargs: Any) -> Any:
            nonlocal signature
            if _CALL.get() is not None:
                return function(*args, **kwargs)
            signature = signature or inspect.signature(function)
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                return function(*args, **kwargs)  # this call raises the error, too, with its own name
            is_named = "name" in bound.arguments and bound.arguments["name"] != method
            bound.apply_defaults()
            call = _Call(method or function.__name__, bound.arguments, aside, is_named=is_named)
            mark = _CALL.set(call)
            try:
                return function(*args, **kwargs)
            finally:
                _CALL.reset(mark)

        return cast(Method, adding)

    return decorate


def origin_of(operator: str) -> Origin:
    call = _CALL.get()
    return Origin() if call is None else call.origin(operator)


def parameter(value: object) -> Parameter:
    """Return an argument as text.

    >>> parameter(timedelta(minutes=5)), parameter(int)
    (Parameter(value='datetime.timedelta(seconds=300)'...), Parameter(value='(...)', types=('int',), functions=()))
    """
    types: list[str] = []
    functions: list[str] = []
    text = _Texts(types, functions).of(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... {sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    return Parameter(text, tuple(types), tuple(functions))


@dataclass(frozen=True, slots=True)
class _Texts:
    """Converts values to text, and collects their types and functions."""

    types: list[str]
    functions: list[str]

    def of(self, value: Any) -> str:
        if isinstance(value, type | GenericAlias | UnionType) or get_origin(value) is not None:
            self.types.append(value.__qualname__ if type(value) is type else str(value))
            return _ANY
        if isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self.of, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{name!r}: {self.of(it)}' for name, it in value.items())}}}"
        if isinstance(value, set | frozenset):
            return f"{{{', '.join(sorted(map(self.of, value)))}}}"
        return self._of_object(value)

    def _of_object(self, value: Any) -> str:
        kind = type(value)
        if kind.__module__.startswith("pyarrow"):
            if hasattr(value, "remove_metadata"):  # a schema
                self.types.append(str(value.remove_metadata()))
                return _ANY
            return str(value)
        if is_dataclass(value) and kind.__module__.startswith("tidewheel."):
            return (
                f"{kind.__name__}({', '.join(f'{it.name}={self.of(getattr(value, it.name))}' for it in fields(value))})"
            )
        if callable(value):
            self.functions.append(_Digest().of(value))
            return _ANY
        return kind.__qualname__


class _Digest:
    """Computes the digest of a function, with the values and functions in its closure."""

    def __init__(self) -> None:
        self._seen: set[FunctionType] = set()

    def of(self, function: Any) -> str:
        return sha256(self._text(function).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def _text(self, value: Any) -> str:
        match value:
            case partial():
                given = [*value.args, *value.keywords.items()]
                return f"partial({self._text(value.func)}, {self._texts(given)})"
            case MethodType():
                return f"{type(value.__self__).__qualname__}.{self._text(value.__func__)}"
            case FunctionType():
                return self._text_of_function(value)
            case tuple() | list():
                return self._texts(value)
            case _ if isinstance(value, _PLAIN):
                return repr(value)
        called = getattr(type(value), "__call__", None)  # noqa: B004 - which function it is
        if isinstance(called, FunctionType) and not isinstance(value, type):
            return f"{type(value).__qualname__}({self._text(called)})"
        return str(getattr(value, "__qualname__", type(value).__qualname__))

    def _text_of_function(self, function: FunctionType) -> str:
        if function in self._seen:
            return "again"
        self._seen.add(function)
        closed = self._texts(cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell))
        defaults = self._texts([*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()])
        return f"{_text_of_code(function.__code__, function.__doc__)}, {closed}, {defaults}"

    def _texts(self, values: Iterable[object]) -> str:
        return f"[{', '.join(map(self._text, values))}]"


def _text_of_code(code: CodeType, doc: str | None = None) -> str:
    """Return a text of what code does, without its docstring and variable names."""
    constants = [None if doc is not None and constant is doc else constant for constant in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {[_text_of_constant(constant) for constant in constants]}"


def _text_of_constant(constant: object) -> str:
    if isinstance(constant, CodeType):
        return _text_of_code(constant)
    if isinstance(constant, frozenset):  # a frozenset has another order in each process
        return str(sorted(map(repr, constant)))
    return repr(constant)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
