"""Codes of values: an int64 for each value, equal for equal values. So arrangements sort and compare only integers.

Whole numbers are their own codes. Codes of floats keep their order. A pair of whole numbers of at most 32 bits has one
code. Other values are *interned*: a table numbers them, and `Codes.sweep` frees unused numbers. For rows, the codes of
all parts together are interned, as bytes.

The first values decide the kind of codes. When values of another kind arrive, all codes become numbers of interned
values. `Codes.encode` announces this, so that holders of codes can translate them.
"""

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from itertools import islice
from reprlib import repr as short
from typing import Any, TypeAlias

import numpy as np

from tidewheel.differential.packing import CountOverflowError
from tidewheel.differential.records import Column, Integers, column_of, parts_of, row_column, values_of, with_one_nan
from tidewheel.differential.updates import Updates, most_counted

Kind: TypeAlias = str | tuple[int, ...]

Translate: TypeAlias = Callable[[Integers], Integers]
"""Returns the new code of each old code."""

_HALF = 1 << 31
_LOW = np.int64((1 << 32) - 1)
_SIGN = np.int64(2**63 - 1)
_FEWEST = 1000
"""The least number of interned values for which a sweep is worth its time."""
_TOGETHER = 1 << 9
"""The number of interned values that are pickled together."""


def overflow_of(updates: Updates, keys: "Codes", values: "Codes | None") -> CountOverflowError:
    """Return the error for updates with too large counts; it names the record with the largest count."""
    key, value = most_counted(updates)
    columns = keys.decode(key) if values is None else [keys.decode(key)[0], values.decode(value)[0]]
    return CountOverflowError(short(_as_objects(columns)[0]))


class Forgotten:
    """Stands for a forgotten value. The class itself is used; it has no instance."""


class Interned:
    """Interned values with consecutive numbers; immutable."""

    __slots__ = ("__weakref__", "values")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    def __reduce__(self) -> tuple[Any, ...]:
        return Interned, (self.values,)


class Codes:
    """The codes of the values of one column, or of the records of one operator.

    Attributes:
        kind: ``"int"``, ``"float"``, ``"pair"`` or ``"object"``; None before the first value. For rows, the number of
            parts of each column, 0 for a column without rows.
    """

    __slots__ = ("_fields", "_free", "_numbers", "_parts", "_swept", "_values", "kind")

    def __init__(self) -> None:
        self.kind: Kind | None = None
        self._fields: list[Codes] = []
        self._numbers: dict[Any, int] = {}
        self._values: list[Any] = []
        self._free: list[int] = []
        self._parts: dict[int, Interned] = {}
        self._swept = 0

    def __getstate__(self) -> "tuple[Kind | None, int, list[Interned], list[Codes]]":
        parts = range(0, len(self._values), _TOGETHER)
        for number, first in enumerate(parts):
            if number not in self._parts:
                self._parts[number] = Interned(tuple(self._values[first : first + _TOGETHER]))
        return self.kind, self._swept, [self._parts[number] for number in range(len(parts))], self._fields

    def __setstate__(self, state: "tuple[Kind | None, int, list[Interned], list[Codes]]") -> None:
        self.kind, self._swept, parts, self._fields = state
        self._values = [with_one_nan(value) for part in parts for value in part.values]
        self._numbers = {value: number for number, value in enumerate(self._values) if value is not Forgotten}
        self._free = [number for number, value in enumerate(self._values) if value is Forgotten]
        self._parts = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def encode(self, columns: Sequence[Column], translate: Callable[[Translate], None] = lambda _: None) -> Integers:
        """Return the codes of the values in one column, or of the pairs in two.

        If all codes change, call ``translate`` first, with a function from old codes to new ones.

        Raises:
            TypeError: a value cannot be hashed.
        """
        if not len(columns[0]):
            return np.empty(0, np.int64)
        kind = _kind(columns)
        if self.kind is None:
            self.kind = kind
        if kind != self.kind:
            if self.kind != "object":
                self._promote(translate)
            kind = "object"
        if kind == "int":
            return np.ascontiguousarray(columns[0])
        if kind == "float":
            return _of_floats(columns[0])
        if kind == "pair":
            return columns[0] << 32 | columns[1] & _LOW
        return self._intern(self._words(columns) if isinstance(kind, tuple) else _as_objects(columns))

    def known(
        self, column: Column, translate: Callable[[Translate], None] = lambda _: None
    ) -> tuple[Integers | None, Integers]:
        """Return the indexes of the values of a column that have a code (None for all), and these codes."""
        if self.kind is None or not len(column):
            return None, np.empty(0, np.int64)
        if self.kind != "object" and (isinstance(self.kind, tuple) or _kind([column]) != self.kind):
            self._promote(translate)
        if self.kind != "object":
            return None, self.encode([column])
        codes = np.array([self._numbers.get(value, -1) for value in values_of(column)], np.int64)
        places = np.flatnonzero(codes >= 0)
        return places, codes[places]

    def decode(self, codes: Integers) -> list[Column]:
        """Return the values of codes: in one column, or in two columns if they were encoded as pairs."""
        if self.kind == "float":
            return [(codes ^ (codes >> 63 & _SIGN)).view(np.float64)]
        if self.kind == "pair":
            return [codes >> 32, (codes << 32) >> 32]
        if self.kind == "object":
            return [np.fromiter(map(self._values.__getitem__, codes.tolist()), object, len(codes))]
        if isinstance(self.kind, tuple):
            words = zip(self._fields, self._words_of(codes).T, strict=True)
            parts = (field.decode(np.ascontiguousarray(column))[0] for field, column in words)
            return [row_column(list(islice(parts, count))) if count else next(parts) for count in self.kind]
        return [codes]

    def find(self, values: Sequence[Any]) -> list[int | None]:
        """Return the code of each value, or None if it has none. The values are of one column, and hashable."""
        if self.kind == "object":
            return [self._numbers.get(with_one_nan(value)) for value in values_of(column_of(values))]
        if self.kind == "int":
            return [_number(int, value) for value in values]
        numbers = [_number(float, value) for value in values]
        return [None if number is None else int(_of_floats(np.array([number]))[0]) for number in numbers]

    @property
    def wants_sweep(self) -> bool:
        """True if the table has at least twice as many values as were in use at the last sweep."""
        return len(self._numbers) > max(_FEWEST, 2 * self._swept)

    def sweep(self, used: Integers) -> None:
        """Forget interned values whose codes are not in ``used``; linear in the number of values."""
        if not self._values:
            return
        is_used = np.zeros(len(self._values), bool)
        is_used[used] = True
        numbers = self._numbers
        for number in np.flatnonzero(~is_used).tolist():
            value = self._values[number]
            if numbers.get(value) == number:
                del numbers[value]
                self._values[number] = Forgotten
                self._free.append(number)
                self._parts.pop(number // _TOGETHER, None)
        self._swept = len(numbers)
        if self._fields:
            for field, column in zip(self._fields, self._words_of(self._used()).T, strict=True):
                if field.kind == "object":
                    field.sweep(column)

    def _words(self, columns: Sequence[Column]) -> list[bytes]:
        parts = [part for column in columns for part in (parts_of(column) if column.dtype.names else [column])]
        self._fields = self._fields or [Codes() for _ in parts]
        words = np.empty((len(parts[0]), len(parts)), np.int64)
        for number, (field, part) in enumerate(zip(self._fields, parts, strict=True)):
            words[:, number] = field.encode([part], partial(self._translate_field, number))
        return _as_bytes(words)

    def _words_of(self, codes: Integers) -> Integers:
        words = b"".join(map(self._values.__getitem__, codes.tolist()))
        return np.frombuffer(words, np.int64).reshape(len(codes), len(self._fields))

    def _used(self) -> Integers:
        return np.fromiter(self._numbers.values(), np.int64, len(self._numbers))

    def _translate_field(self, number: int, change: Translate) -> None:
        used = self._used()
        if not len(used):
            return
        words = self._words_of(used).copy()
        words[:, number] = change(words[:, number])
        self._numbers = dict(zip(_as_bytes(words), used.tolist(), strict=True))
        for word, code in self._numbers.items():
            self._values[code] = word
        self._parts.clear()

    def _promote(self, translate: Callable[[Translate], None]) -> None:
        before = copy(self)
        self.__setstate__(("object", 0, [], []))

        def translated(codes: Integers) -> Integers:
            distinct, places = np.unique(codes, return_inverse=True)
            return self._intern(_as_objects(before.decode(distinct)))[places]

        translate(translated)

    def _intern(self, values: list[Any]) -> Integers:
        numbers = self._numbers
        try:
            new = dict.fromkeys([value for value in values if value not in numbers])
        except TypeError as error:
            raise TypeError(
                f"a record of a collection has to be hashable all through, and "
                f"{short(next((value for value in values if not is_hashable(value)), None))} is not: "
                "use tuples instead of lists and sets"
            ) from error
        if new and not isinstance(self.kind, tuple):
            new = dict.fromkeys([one for one in map(with_one_nan, new) if one not in numbers])
        again = self._free[: len(new)]
        chosen = [*again, *range(len(self._values), len(self._values) + len(new) - len(again))]
        del self._free[: len(new)]
        for number, value in zip(again, new, strict=False):
            self._values[number] = value
        self._values += islice(new, len(again), None)
        numbers.update(zip(new, chosen, strict=True))
        for part in {number // _TOGETHER for number in chosen}:
            self._parts.pop(part, None)
        try:
            return np.fromiter(map(numbers.__getitem__, values), np.int64, len(values))
        except KeyError:  # a NaN from another process
            return np.array([numbers[with_one_nan(value)] for value in values], np.int64)


def is_hashable(value: Any) -> bool:
    """Tell whether a value and all its parts can be hashed."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _as_bytes(words: Integers) -> list[bytes]:
    found: list[bytes] = words.view(f"V{8 * words.shape[1]}").ravel().tolist()
    return found


def _number(kind: Callable[[Any], Any], value: Any) -> Any:
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    is_equal = number == value or (number != number and value != value)  # noqa: PLR0124 - where both are NaN
    return number if is_equal and (kind is float or -(2**63) <= number < 2**63) else None


def _kind(columns: Sequence[Column]) -> Kind:
    if any(one.dtype.names for one in columns):
        return tuple(len(one.dtype.names or ()) for one in columns)
    kinds = "".join(one.dtype.kind for one in columns)
    if kinds == "ii":
        ends = [end for one in columns for end in (one.min(), one.max())]
        return "pair" if min(ends) >= -_HALF and max(ends) < _HALF else "object"
    return {"i": "int", "f": "float"}.get(kinds, "object")


def _of_floats(values: Column) -> Integers:
    plain = np.where(np.isnan(values), np.nan, values + 0.0)  # one NaN, and no negative zero
    bits = plain.view(np.int64)
    codes: Integers = bits ^ (bits >> 63 & _SIGN)
    return codes


def _as_objects(columns: Sequence[Column]) -> list[Any]:
    values = [values_of(one) for one in columns]
    return values[0] if len(values) == 1 else list(zip(*values, strict=True))
