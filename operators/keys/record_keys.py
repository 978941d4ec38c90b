"""Keys of records, read from a batch of any kind, or made from whole records.

Keys that are equal in Python are one key. All NaN, also within tuples, become the key `math.nan`. All NaT of a NumPy
type are one key.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from operator import is_
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, TypeAlias

from tidewheel.batches.batches import Batch, is_arrow, records
from tidewheel.operators.keys.columns import check_names
from tidewheel.progress import GraphError
from tidewheel.runtime.description.pacts import Key
from tidewheel.runtime.description.stable_hash import KEYS

if TYPE_CHECKING:
    import pyarrow as pa

Names: TypeAlias = str | tuple[str, ...]
"""The name of a column or field, or several names; then the key is the tuple of their values."""

_EQUAL_TO_THEMSELVES: frozenset[type] = frozenset({int, str, bytes, bool, type(None)})
"""Types without a NaN."""


_ROW, _LIST = "\0row", "\0list"
"""The first part of a key made from a row or a list, so that the key never equals a tuple."""


class _Row(tuple[Any, ...]):
    """A dict as a key: `_ROW` and its items in order of names."""

    __slots__ = ()


class _List(tuple[Any, ...]):
    """A list as a key: `_LIST` and its elements."""

    __slots__ = ()


_NOT_A_TIME: dict[type, Any] = {}
"""The NaT that stands for all NaT of a NumPy type, by type."""


def as_key(record: Any) -> Any:
    """Return a record as a key: rows (dicts) and lists become hashable, and each NaN becomes `math.nan`.

    >>> as_key({"n": 1, "tags": ["a"]}) == as_key({"tags": ["a"], "n": 1})
    True
    """
    kind = type(record)
    if kind is float:
        return record if record == record else math.nan  # noqa: PLR0124 - NaN is not
    if kind is tuple:
        return tuple([as_key(part) for part in record])
    if kind is dict:
        return _Row([_ROW, *sorted([(name, as_key(value)) for name, value in record.items()])])
    if kind is list:
        return _List([_LIST, *[as_key(part) for part in record]])
    if isinstance(record, tuple):  # a named tuple, or a key already, whose NaN may be of another process
        return _rebuilt(record, [as_key(part) for part in record])
    return _the_one(record) if is_nan(record) else record


class _PortableNaN(float):
    """A NaN that unpickles to one object in each process, so that dicts find it."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return "PORTABLE_NAN"


PORTABLE_NAN = _PortableNaN("nan")
"""The stand-in for NaN in keys that travel between processes."""


def as_portable_key(key: Any) -> Any:
    """Return a key of `as_key` in a form that still equals itself after pickling.

    Raises:
        TypeError: the key is NaT, which has no such form.

    >>> import pickle
    >>> key = as_portable_key(("a", math.nan))
    >>> pickle.loads(pickle.dumps(key)) == key
    True
    """
    if isinstance(key, tuple):
        return _rebuilt(key, [as_portable_key(part) for part in key])
    if not is_nan(key):
        return key
    if not isinstance(key, float):
        raise TypeError(f"{key!r}, a time that is none, cannot be the key of a substream: replace it before")
    return PORTABLE_NAN


def is_nan(value: Any) -> bool:
    """Tell whether a value differs from itself, as NaN and NaT do; never True for an array.

    >>> is_nan(math.nan), is_nan(1.0)
    (True, False)
    """
    try:
        return bool(value != value)  # noqa: PLR0124 - only a NaN, of any type, differs from itself
    except (TypeError, ValueError):  # an array, pandas' NA
        return False


def _the_one(nan: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(nan, numpy.datetime64 | numpy.timedelta64):
        return _NOT_A_TIME.setdefault(type(nan), nan)
    return nan if isinstance(nan, date) else math.nan  # pandas has but one NaT


def _rebuilt(record: tuple[Any, ...], parts: list[Any]) -> tuple[Any, ...]:
    if all(map(is_, record, parts)):
        return record
    return tuple.__new__(type(record), parts)


def as_record(key: Any) -> Any:
    """Return the record of a key of `as_key`.

    >>> as_record(as_key({"n": 1, "tags": ["a"]}))
    {'n': 1, 'tags': ['a']}
    """
    kind = type(key)
    if kind is _Row:
        return {name: as_record(value) for name, value in key[1:]}
    if kind is _List:
        return [as_record(part) for part in key[1:]]
    return _rebuilt(key, [as_record(part) for part in key]) if isinstance(key, tuple) else key


def may_have_nan(keys: Collection[Any]) -> bool:
    """Tell whether one of ``keys`` may contain a NaN, or was made from a row or list."""
    kinds = set(map(type, keys))
    if tuple in kinds:
        kinds.discard(tuple)
        kinds.update(map(type, chain.from_iterable(key for key in keys if type(key) is tuple)))
    return not kinds <= _EQUAL_TO_THEMSELVES


def check_by(operator: str, what: str, by: object, schema: "pa.Schema | None") -> None:
    """Raise GraphError unless an operator on a stream with ``schema`` can use ``by`` as a key or order."""
    names = by if isinstance(by, tuple) else (by,)
    if callable(by):
        return
    if not (names and all(isinstance(part, str) for part in names)):
        raise GraphError(
            f"operator {operator!r}: {what} a function of a record, the name of a column or a tuple of names, "
            f"not {by!r}"
        )
    check_names(operator, schema, names)


@dataclass(frozen=True, slots=True)
class Keys:
    """The key of records: a function of a record, or names of columns; None for the whole record.

    >>> Keys("word").of([{"word": "tide", "n": 1}]), Keys(len).grouped(["a", "bb", "c"])
    (['tide'], {1: ['a', 'c'], 2: ['bb']})
    """

    key: Key | None

    @classmethod
    def checked(cls, name: str, key: Any, schema: "pa.Schema | None" = None) -> "Keys":
        """Return the keys of an operator; raise GraphError if ``key`` cannot be used.

        ``schema`` is the stream's schema, if known.
        """
        check_by(name, "a key is", key, schema)
        return cls(key)

    @property
    def names(self) -> list[str]:
        assert isinstance(self.key, str | tuple), "keys stand in columns"
        return [self.key] if isinstance(self.key, str) else list(self.key)

    def of(self, batch: Batch) -> list[Any]:
        """Return the key of each record as a Python value; see `hashable`.

        Raises:
            KeyError: there is no such column or field.
            TypeError: a key is a time of day with nanoseconds, which Python cannot hold.
        """
        if self.key is None:
            if is_arrow(batch):
                _check_times(batch, batch.schema.names)
            return records(batch)
        if isinstance(self.key, str):
            return _column(batch, self.key)
        if isinstance(self.key, tuple):
            return list(zip(*(_column(batch, name) for name in self.key), strict=True))
        function = self.key
        return [function(record) for record in records(batch)]  # map() would end at a StopIteration, and lose the rest

    def hashable(self, batch: Batch) -> list[Any]:
        """Return the hashable key of each record, with one NaN object for all NaN.

        Raises:
            TypeError: a key cannot be hashed.
        """
        keys = self.of(batch)
        try:
            distinct = set(keys)
        except TypeError:
            self.check(keys)
            return [as_key(key) for key in keys]
        if not may_have_nan(distinct):
            return keys
        made = {key: as_key(key) for key in distinct}
        return list(map(made.__getitem__, keys))

    def grouped(self, batch: Batch) -> dict[Any, list[Any]]:
        """Return the records of each key, in their order; raise TypeError if a key cannot be hashed."""
        keys = self.of(batch)
        groups: defaultdict[Any, list[Any]] = defaultdict(list)
        try:
            for key, record in zip(keys, records(batch), strict=True):
                groups[key].append(record)
        except TypeError:
            self.check(keys)
            groups.clear()
            for key, record in zip(keys, records(batch), strict=True):
                groups[as_key(key)].append(record)
        return join_nan_groups(groups) if may_have_nan(groups) else dict(groups)

    def check(self, keys: list[Any]) -> None:
        """Raise TypeError, naming the key, if one of ``keys`` cannot be a key.

        Rows and lists can be keys as whole records only.
        """
        for key in keys:
            try:
                hash(as_key(key) if self.key is None else key)
            except TypeError as error:
                rows = "; a whole record may be a dict or a list of these, too" if self.key is None else ""
                raise TypeError(
                    f"{short(key)} of type {type(key).__qualname__} cannot be a key, {error}: {KEYS}{rows}"
                ) from error


def places_by_key(keys: Sequence[Any]) -> dict[Any, list[int]]:
    """Return the indexes of each hashable key, in order.

    >>> places_by_key(["a", "b", "a"])
    {'a': [0, 2], 'b': [1]}
    """
    places: defaultdict[Any, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    return dict(places)


def join_nan_groups(groups: dict[Any, list[Any]]) -> dict[Any, list[Any]]:
    """Return groups by key; merge keys that differ only in their NaN objects."""
    joined: dict[Any, list[Any]] = {}
    for key, rows in groups.items():
        known = joined.setdefault(as_key(key), rows)
        if known is not rows:
            known.extend(rows)
    return joined


def _column(batch: Batch, name: str) -> list[Any]:
    if isinstance(batch, list):
        try:
            return [record[name] for record in batch]
        except (KeyError, TypeError, IndexError):
            for record in batch:
                _check_field(record, name)
            raise
    check_column(batch, name)
    if not is_arrow(batch):
        return records(batch[name])
    _check_times(batch, [name])
    column: list[Any] = batch.column(name).to_pylist()
    return column


def check_column(batch: Batch, name: str) -> None:
    """Raise KeyError if an Arrow or NumPy batch has no column with this name."""
    names = batch.schema.names if is_arrow(batch) else batch.dtype.names or ()
    if name not in names:
        what = list(names) if is_arrow(batch) else f"dtype {batch.dtype}"
        raise KeyError(f"no column {name!r} for the key; the batch has {what}")


def _check_field(record: Any, name: str) -> None:
    try:
        record[name]
    except KeyError as error:
        raise KeyError(f"no field {name!r} for the key; a record has {list(record)}") from error
    except (TypeError, IndexError) as error:
        remedy = f"lambda record: record.{name}" if hasattr(record, name) else "a function"
        raise TypeError(
            f"{name!r} names a field of dicts or a column, and {short(record)} is a {type(record).__qualname__}: "
            f"give {remedy} as the key"
        ) from error


def _check_times(batch: Batch, names: list[str]) -> None:
    import pyarrow as pa

    for name in names:
        if batch.schema.field(name).type == pa.time64("ns"):
            try:
                batch.column(name).cast(pa.time64("us"))
            except pa.ArrowInvalid as error:
                raise TypeError(
                    f"column {name!r} has times of day with nanoseconds, and as a key these would be lost: cast it to "
                    "time64[us], or to int64, before"
                ) from error
