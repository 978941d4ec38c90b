"""An estimate of the memory that records hold, made in bounded time.

The estimate samples a few records and, level by level, a few of the objects that they refer to. Each call samples other
records, so that rare large records count on average. Only methods of builtin classes are called, since users' methods
may be slow or raise.
"""

from collections import deque
from collections.abc import Sequence
from gc import get_referents
from itertools import chain, islice
from sys import getsizeof
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MethodDescriptorType, ModuleType
from typing import Any, TypeAlias

_PLAIN = frozenset({int, float, complex, bool, str, bytes, bytearray, type(None)})
"""The classes of objects that refer to nothing."""
_BY_NAME = (type, ModuleType, FunctionType, BuiltinFunctionType)
"""Objects of these classes belong to the program, not to a record."""
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)

_VARYING = frozenset({str, bytes, bytearray})
"""Classes whose objects may be large although they refer to nothing."""

_ONE_IN = 128
_MOST_KINDS = 64
_MOST_OF_A_LEVEL = 8
_MOST_OF_A_CONTAINER = 16
_MOST_LISTED = 1000
_DEEPEST = 9
_LARGE = 1000
"""Flat records above this size in bytes are walked like others.

A record without an estimate counts as this many bytes.
"""
_MIX = 0x9E3779B1
_EMPTY = getsizeof([])
_PLACE = getsizeof([None]) - _EMPTY
_Reached: TypeAlias = dict[int, tuple[Any, float, int]]
"""By id: the object, how many objects it stands for, and the position of its record, -1 if it is in several."""


class RecordSizes:
    """Estimates the bytes that successive lists of records hold.

    Lists of strings or bytes are always sampled; for other classes, a sample serves the next 128 records.

    >>> sizes = RecordSizes()
    >>> sizes.of([{"image": bytes(1_000_000)} for _ in range(3)]) // 1_000_000
    3
    """

    __slots__ = ("_known", "_turn")

    def __init__(self) -> None:
        self._known: dict[type, tuple[float, int]] = {}  # by class: a record's size, and for how many more it counts
        self._turn = 0

    def of(self, records: Sequence[Any]) -> int:
        """Estimate the bytes of one or more records; O(1)."""
        count, kind = len(records), type(records[0])
        try:
            each, left = self._known.get(kind, (0.0, 0))
            left -= count
            if left < 0 or kind in _VARYING:
                if len(self._known) >= _MOST_KINDS:
                    self._known.clear()
                self._turn += 1
                each, left = held_bytes(records, self._turn) / count, _ONE_IN
            self._known[kind] = each, left
        except Exception:  # noqa: BLE001 - a user's class or metaclass may raise anything
            each = _LARGE
        return _EMPTY + int(count * (_PLACE + each))


def held_bytes(records: Sequence[Any], turn: int = 0) -> int:
    """Estimate the bytes of at least one record and of all objects that the records refer to, from a sample; O(1).

    An object that several sampled records share counts once.
    """
    count = len(records)
    some = records if count == 1 else _some(records, min(_MOST_OF_A_LEVEL, 2 + count // _ONE_IN), turn)
    total = 0
    for record in some:
        size = _size_if_flat(record)
        if size is None or (size > _LARGE and count > 1):
            return round(_walk(some, count / len(some), turn))
        total += size
    return total * count // len(some)


def _some(items: Any, most: int, turn: int) -> Any:
    step = -(-len(items) // most)
    return items if step <= 1 else items[(turn * _MIX >> 12) % step :: step]


def _size_if_flat(record: Any) -> int | None:
    kind = type(record)
    if kind in _PLAIN:
        return getsizeof(record)
    parts = record.values() if kind is dict else record if kind is tuple else None
    if parts is None or len(parts) > _MOST_OF_A_CONTAINER or not _PLAIN.issuperset(map(type, parts)):
        return None
    return getsizeof(record) + sum(map(getsizeof, parts))


def _walk(records: Sequence[Any], weight: float, turn: int) -> float:
    total, seen = 0.0, set[int]()
    reached: _Reached = {}
    for root, record in enumerate(records):
        _reach(reached, seen, [record], weight, root)
    for _ in range(_DEEPEST):
        seen |= reached.keys()
        total += sum(each * getsizeof(one) for one, each, _ in reached.values() if type(one) in _PLAIN)
        level = [entry for entry in reached.values() if type(entry[0]) not in _PLAIN]
        reached = {}
        some = _some(level, _MOST_OF_A_LEVEL, turn)
        for one, each, root in some:
            share = each * len(level) / len(some)
            parts, count = _parts(one, turn)
            total += share * _own_bytes(one)
            _reach(reached, seen, parts, share * count / max(1, len(parts)), root)
    return total


def _reach(reached: _Reached, seen: set[int], parts: Sequence[Any], weight: float, root: int) -> None:
    for part in parts:
        key = id(part)
        if key in reached and reached[key][2] != root:
            reached[key] = part, 1.0, -1
        elif key not in seen and not issubclass(type(part), _BY_NAME):
            reached[key] = part, weight, root


def _own_bytes(value: Any) -> int:
    if _is_buffer(value):
        return int(value.nbytes)
    measures = (vars(base).get("__sizeof__") for base in type(value).__mro__)
    measure: Any = next(each for each in measures if type(each) is MethodDescriptorType)
    return int(measure(value))


def _is_buffer(value: Any) -> bool:
    return type(getattr(type(value), "nbytes", None)) is GetSetDescriptorType


def _parts(value: Any, turn: int) -> tuple[Sequence[Any], int]:
    base: Any = next((base for base in _CONTAINERS if issubclass(type(value), base)), None)
    if base is None and _is_buffer(value):
        has_objects = getattr(getattr(value, "dtype", None), "hasobject", False)
        return (_some(value.reshape(-1), _MOST_OF_A_CONTAINER, turn).tolist(), value.size) if has_objects else ((), 0)
    if base is None:
        listed: Any = get_referents(value)
        return _some(listed, _MOST_OF_A_CONTAINER, turn), len(listed)
    items, count = base.__iter__(value), base.__len__(value)
    if base is dict and count <= _MOST_OF_A_CONTAINER:  # its keys are names that all records share
        items = dict.values(value)
    elif base is dict:
        items, count = chain.from_iterable(dict.items(value)), 2 * count
    listed = value if type(value) in {list, tuple} else list(islice(items, _MOST_LISTED))
    return _some(listed, _MOST_OF_A_CONTAINER, turn), count
