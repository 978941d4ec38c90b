"""Plain values as bytes and back, without pickle, so that reading a file never runs code in it.

Values are MessagePack; extensions stand for tuples, sets, dates and integers beyond 64 bits. A list of flat tuples, or
of flat dicts, needs no extension.
"""

import datetime as dt
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple

import msgspec

_ATOMS = {type(None), bool, int, float, str, bytes}
_TUPLES, _VALUES = b"t", b"x"
_LEAST_INT, _MOST_INT = -(1 << 63), (1 << 64) - 1

_encode = msgspec.msgpack.Encoder().encode


def encode(records: list[Any]) -> bytes:
    """Return the bytes of a list of plain values.

    Plain values are None, bool, numbers, text, bytes, dates and times, and lists, tuples, dicts and sets of them.

    >>> decode(encode([(1, "a"), {"b": {2, 3}}])) == [(1, "a"), {"b": {2, 3}}]
    True

    Raises:
        TypeError: a value is not plain.
    """
    kinds = set(map(type, records))
    try:
        items = chain.from_iterable(map(dict.items, records)) if kinds == {dict} else ()
        if kinds <= _ATOMS or (items and set(map(type, chain.from_iterable(items))) <= _ATOMS):
            return _VALUES + _encode(records)
        if kinds == {tuple} and set(map(type, chain.from_iterable(records))) <= _ATOMS:
            return _TUPLES + _encode(records)
    except OverflowError:  # an integer beyond 64 bits
        pass
    return _VALUES + _encode([_tagged(record) for record in records])


def decode(data: bytes) -> list[Any]:
    """Return the list that was encoded; raise ValueError if the bytes are not such a list."""
    form = data[:1]
    if form not in _FORMS:
        raise ValueError(f"these are no records: they begin with {form!r}")
    found: list[Any] = _FORMS[form](memoryview(data)[1:])
    return found


# ------------------------------------------------------------------ extensions


def _tagged(value: Any) -> Any:
    kind = type(value)
    if kind in _ATOMS and (kind is not int or _LEAST_INT <= value <= _MOST_INT):
        return value
    if kind is list:
        return _tagged_parts(value)
    if kind is dict and set(map(type, value)) <= {str}:
        return {name: _tagged(part) for name, part in value.items()}
    if kind in _CODES:
        code = _CODES[kind]
        return msgspec.msgpack.Ext(code, _encode(_EXTENSIONS[code].write(value)))
    raise TypeError(
        f"a {kind.__qualname__} is no plain value, such as numbers, text, dates, and tuples, lists, dicts and sets of "
        "those. Pickling it would run its code in the program that reads the file. Map to plain values first: "
        f"{value!r:.200}"
    )


def _tagged_parts(parts: Iterable[Any]) -> list[Any]:
    return [_tagged(part) for part in parts]


class _Extension(NamedTuple):
    """The conversion of a type of value to MessagePack and back."""

    kind: type
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


_EXTENSIONS = {
    1: _Extension(tuple, _tagged_parts, tuple),
    2: _Extension(set, _tagged_parts, set),
    3: _Extension(frozenset, _tagged_parts, frozenset),
    4: _Extension(dict, lambda value: [_tagged_parts(item) for item in value.items()], dict),
    5: _Extension(int, str, int),
    6: _Extension(dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    7: _Extension(dt.date, dt.date.isoformat, dt.date.fromisoformat),
    8: _Extension(dt.time, dt.time.isoformat, dt.time.fromisoformat),
    9: _Extension(
        dt.timedelta, lambda value: [value.days, value.seconds, value.microseconds], lambda parts: dt.timedelta(*parts)
    ),
    10: _Extension(Decimal, str, Decimal),
}
"""The extensions, by their numbers in files."""

_CODES = {extension.kind: code for code, extension in _EXTENSIONS.items()}


def _read_extension(code: int, data: memoryview) -> Any:
    if code not in _EXTENSIONS:
        raise ValueError(f"these are no records: they have an extension of kind {code}")
    return _EXTENSIONS[code].read(_decode_tagged(data))


_decode_tagged = msgspec.msgpack.Decoder(ext_hook=_read_extension).decode
_FORMS: dict[bytes, Callable[[memoryview], Any]] = {
    _TUPLES: msgspec.msgpack.Decoder(list[tuple[Any, ...]]).decode,
    _VALUES: msgspec.msgpack.Decoder(list[Any], ext_hook=_read_extension).decode,
}
