"""Plain values as bytes and back, without pickle, so that reading a file runs no code that the file brings along.

Values are written as MessagePack, which knows no tuples, sets or dates, and no integers beyond 64 bits. Where there are
such, a value is written in a form that has them as extensions. A list of flat tuples, or of flat dicts, needs none.
"""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from itertools import chain
from typing import Any

import msgspec

_ATOMS = {type(None), bool, int, float, str, bytes}
_FLAT, _FLAT_TUPLES, _TAGGED = b"f", b"t", b"x"
_LEAST_INT, _MOST_INT = -(1 << 63), (1 << 64) - 1

_encode = msgspec.msgpack.Encoder().encode


def encode(records: list[Any]) -> bytes:
    """Return the bytes of a list of plain values.

    Those are None, bool, numbers, text, bytes, dates and times, and in any depth lists, tuples, dicts and sets of such.

    >>> decode(encode([(1, "a"), {"b": {2, 3}}])) == [(1, "a"), {"b": {2, 3}}]
    True

    Raises:
        TypeError: a value is something else.
    """
    kinds = set(map(type, records))
    try:
        if kinds <= _ATOMS or (kinds == {dict} and _atoms(chain.from_iterable(map(dict.items, records)))):
            return _FLAT + _encode(records)
        if kinds == {tuple} and set(map(type, chain.from_iterable(records))) <= _ATOMS:
            return _FLAT_TUPLES + _encode(records)
    except OverflowError:  # an integer beyond 64 bits
        pass
    return _TAGGED + _encode([_tagged(record) for record in records])


def decode(data: bytes) -> list[Any]:
    """Return the list that was encoded. Raises ValueError if it was not."""
    form, rest = data[:1], memoryview(data)[1:]
    found: list[Any] = _FORMS[form](rest) if form in _FORMS else _refuse(form)
    return found


def _atoms(items: Any) -> bool:
    return set(map(type, chain.from_iterable(items))) <= _ATOMS


def _refuse(form: bytes) -> list[Any]:
    raise ValueError(f"these are no records: they begin with {form!r}")


# ------------------------------------------------------------------ extensions


def _tagged(value: Any) -> Any:
    kind = type(value)
    if kind is int and not _LEAST_INT <= value <= _MOST_INT:
        return _extension(_INT, str(value))
    if kind in _ATOMS:
        return value
    if kind is list:
        return [_tagged(part) for part in value]
    if kind is dict:
        if set(map(type, value)) <= {str}:
            return {name: _tagged(part) for name, part in value.items()}
        return _extension(_DICT, [[_tagged(key), _tagged(part)] for key, part in value.items()])
    if kind in _CONTAINERS:
        return _extension(_CONTAINERS[kind], [_tagged(part) for part in value])
    if kind in _WRITERS:
        code, write = _WRITERS[kind]
        return _extension(code, write(value))
    raise TypeError(
        f"a {kind.__qualname__} is no plain value, such as numbers, text, dates, and tuples, lists, dicts and sets of "
        "those. Pickling it would run its code in the program that reads the file. Map to plain values first: "
        f"{value!r:.200}"
    )


def _extension(code: int, value: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _encode(value))


_TUPLE, _SET, _FROZENSET, _DICT, _INT, _DATETIME, _DATE, _TIME, _TIMEDELTA, _DECIMAL = range(1, 11)
_CONTAINERS: dict[type, int] = {tuple: _TUPLE, set: _SET, frozenset: _FROZENSET}
_WRITERS: dict[type, tuple[int, Callable[[Any], Any]]] = {
    dt.datetime: (_DATETIME, dt.datetime.isoformat),
    dt.date: (_DATE, dt.date.isoformat),
    dt.time: (_TIME, dt.time.isoformat),
    dt.timedelta: (_TIMEDELTA, lambda value: [value.days, value.seconds, value.microseconds]),
    Decimal: (_DECIMAL, str),
}
_READERS: dict[int, Callable[[Any], Any]] = {
    _TUPLE: tuple,
    _SET: set,
    _FROZENSET: frozenset,
    _DICT: dict,
    _INT: int,
    _DATETIME: dt.datetime.fromisoformat,
    _DATE: dt.date.fromisoformat,
    _TIME: dt.time.fromisoformat,
    _TIMEDELTA: lambda parts: dt.timedelta(*parts),
    _DECIMAL: Decimal,
}


def _read_extension(code: int, data: memoryview) -> Any:
    if code not in _READERS:
        raise ValueError(f"these are no records: they have an extension of kind {code}")
    return _READERS[code](_decode_tagged(data))


_decode_tagged = msgspec.msgpack.Decoder(ext_hook=_read_extension).decode
_FORMS: dict[bytes, Callable[[memoryview], Any]] = {
    _FLAT: msgspec.msgpack.Decoder(list[Any]).decode,
    _FLAT_TUPLES: msgspec.msgpack.Decoder(list[tuple[Any, ...]]).decode,
    _TAGGED: _decode_tagged,
}
