"""The memory that records hold, estimated in bounded time.

The estimate looks at a few of the records, and level by level at a few of the objects to which these refer. It takes
the others to be like them. Each time it looks at others, so that a few large records among many small ones count for
what they are on average.
"""

from collections import deque
from collections.abc import Sequence
from gc import get_referents
from itertools import chain, islice
from sys import getsizeof
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MethodDescriptorType, ModuleType
from typing import Any

_PLAIN = frozenset({int, float, complex, bool, str, bytes, bytearray, type(None)})
"""The classes of objects that refer to nothing."""
_BY_NAME = (type, ModuleType, FunctionType, BuiltinFunctionType)
"""The classes of objects that belong to the program."""

_VARYING = frozenset({str, bytes, bytearray})
"""The classes of such objects that may be large."""

_ONE_IN = 128
_MOST_OF_A_LEVEL = 8
_MOST_OF_A_CONTAINER = 16
_MOST_LISTED = 1000
_DEEPEST = 8
_MIX = 0x9E3779B1
_EMPTY = getsizeof([])
_PLACE = getsizeof([None]) - _EMPTY


class RecordSizes:
    """About how many bytes the lists of records hold that pass one place, one list after the other.

    Of texts and bytes it looks at each list, of other records at one in 128.

    >>> sizes = RecordSizes()
    >>> sizes.of([{"image": bytes(1_000_000)}] * 3) // 1_000_000
    3
    """

    __slots__ = ("_each", "_kind", "_left", "_turn")

    def __init__(self) -> None:
        self._each = 0.0
        self._kind: type | None = None
        self._left = self._turn = 0

    def of(self, records: Sequence[Any]) -> int:
        """Return about how many bytes a list or array of records, at least one, holds. Complexity: O(1)."""
        count, kind = len(records), type(records[0])
        self._left -= count
        if self._left < 0 or kind is not self._kind or kind in _VARYING:
            self._turn += 1
            self._each = held_bytes(records, self._turn) / count
            self._kind, self._left = kind, _ONE_IN
        return _EMPTY + int(count * (_PLACE + self._each))


def held_bytes(records: Sequence[Any], turn: int = 0) -> int:
    """Return about how many bytes some records, at least one, hold with what they refer to.

    An object that several records share may count for each of them. Complexity: O(1).

    Args:
        records: a list, or an array of one dimension.
        turn: another number has it look at others of many records.
    """
    count = len(records)
    some = _some(records, min(_MOST_OF_A_LEVEL, 1 + count // _ONE_IN), turn)
    total = 0
    for record in some:
        size = _size_if_flat(record)
        if size is None:
            return round(_walk([(each, count / len(some)) for each in some], turn))
        total += size
    return total * count // len(some)


def _some(items: Any, most: int, turn: int) -> Any:
    """Return at most so many items, evenly spread."""
    step = -(-len(items) // most)
    return items if step <= 1 else items[(turn * _MIX >> 12) % step :: step]


def _size_if_flat(record: Any) -> int | None:
    """Return the size of a record that has no parts, or a few that have none; None for others."""
    kind = type(record)
    if kind in _PLAIN:
        return getsizeof(record)
    parts = record.values() if kind is dict else record if kind is tuple else None
    if parts is None or len(parts) > _MOST_OF_A_CONTAINER or not _PLAIN.issuperset(map(type, parts)):
        return None
    return getsizeof(record) + sum(map(getsizeof, parts))


def _walk(level: Sequence[tuple[Any, float]], turn: int) -> float:
    """Return how much some objects hold, each of which stands for as many as are said beside it."""
    total, seen = 0.0, {id(one) for one, _ in level}
    for _ in range(_DEEPEST):
        deeper: list[tuple[Any, float]] = []
        some = _some(level, _MOST_OF_A_LEVEL, turn)
        for one, weight in some:
            share = weight * len(level) / len(some)
            parts, count = _parts(one, turn)
            total += share * _own_bytes(one)
            share *= count / max(1, len(parts))
            for part in parts:
                if type(part) in _PLAIN:
                    total += share * getsizeof(part)
                elif id(part) not in seen and not isinstance(part, _BY_NAME):
                    seen.add(id(part))
                    deeper.append((part, share))
        if not deeper:
            break
        level = deeper
    return total


def _own_bytes(value: Any) -> int:
    """Return the size of an object without what it refers to; methods of users' classes may take long, or raise."""
    if _is_buffer(value):
        return int(value.nbytes)
    measures = (vars(base).get("__sizeof__") for base in type(value).__mro__)
    measure: Any = next(each for each in measures if type(each) is MethodDescriptorType)
    return int(measure(value))


def _is_buffer(value: Any) -> bool:
    """Tell whether an object, such as an array or a table, says itself how large its data are."""
    return type(getattr(type(value), "nbytes", None)) is GetSetDescriptorType


def _parts(value: Any, turn: int) -> tuple[Sequence[Any], int]:
    """Return some of what an object refers to, and how much there is in all."""
    listed: Any
    if isinstance(value, list | tuple):
        listed, count = value, len(value)
    elif isinstance(value, dict) and len(value) <= _MOST_OF_A_CONTAINER:  # its keys are names that all records share
        listed, count = list(value.values()), len(value)
    elif isinstance(value, dict):
        listed, count = list(islice(chain.from_iterable(value.items()), _MOST_LISTED)), 2 * len(value)
    elif isinstance(value, set | frozenset | deque):
        listed, count = list(islice(value, _MOST_LISTED)), len(value)
    elif not _is_buffer(value):
        listed = get_referents(value)
        count = len(listed)
    elif getattr(getattr(value, "dtype", None), "hasobject", False):
        listed, count = value.reshape(-1), value.size
        return _some(listed, _MOST_OF_A_CONTAINER, turn).tolist(), count
    else:
        listed, count = (), 0
    return _some(listed, _MOST_OF_A_CONTAINER, turn), count
