"""Orders of records: by themselves, by a function or by columns.

Content decides between equal records: for Arrow rows the other columns, otherwise `record_hash`. So the order does not
depend on the number of workers or the order of arrival. NaN comes last in both directions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from math import isnan
from operator import gt, itemgetter, lt, ne
from reprlib import repr as short
from typing import TYPE_CHECKING, Any

from tidewheel.batches.batches import Batch, concatenate, is_arrow, length, records
from tidewheel.operators.keys.key_columns import sortable
from tidewheel.operators.keys.record_hash import record_hash
from tidewheel.operators.keys.record_keys import Keys, check_by, is_nan
from tidewheel.runtime.description.pacts import Key

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_NO_NAN: tuple[type, ...] = (str, bytes)
"""Types whose values are comparable only with each other, and that have no NaN."""

_EQUAL_IF_COMPARED: frozenset[type] = frozenset({int, str, bytes, bool, float})
"""Types of which two values are the same if neither is before the other."""

_TOLD_APART: frozenset[type] = frozenset({int, str, bytes, bool})
"""Types whose order distinguishes any two values, also in tuples. Comparing them is faster than comparing hashes."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order of records: least first, or greatest first if reversed.

    >>> Order(len).sorted(["ccc", "a", "bb"]), Order(None, reverse=True).sorted(["ccc", "a", "bb"], limit=2)
    (['a', 'bb', 'ccc'], ['ccc', 'bb'])
    """

    by: Key | None
    reverse: bool = False

    @classmethod
    def checked(cls, name: str, by: object, schema: "pa.Schema | None") -> "Order | None":
        """Return the order of an operator, None if ``by`` is None; raise GraphError as `check_order` does."""
        check_order(name, by, schema)
        return None if by is None else cls(by)  # type: ignore[arg-type]

    def sorted(self, batch: Batch, limit: int | None = None) -> Batch:
        """Return the records in order, at most ``limit`` of them, as a batch of the same kind."""
        if isinstance(batch, list) and self.by is None and nan_last(batch) is batch:
            in_order = self._sort(batch, None)
            if self._is_decided(batch, in_order, limit):
                return in_order[:limit]
        return take(batch, self.indices(batch, limit))

    def uses_columns(self, batch: Batch) -> bool:
        """Tell whether rows are ordered by columns, without converting them to records."""
        return not (isinstance(batch, list) or callable(self.by))

    def indices(self, batch: Batch, limit: int | None = None) -> "Sequence[int] | npt.NDArray[np.int64]":
        """Return the indexes of the records in order, at most ``limit`` of them."""
        if not self._is_columnar(batch):
            return self._ranked(batch, limit)
        return (self._arrow_indices(batch) if is_arrow(batch) else self._numpy_indices(batch))[:limit]

    def merged(self, streams: Sequence[Batch]) -> Batch:
        """Merge batches in order into one; among equal records, the earlier batch comes first.

        The result has the batches' kind if all have the same; otherwise it is a list.
        """
        assert not self.reverse, "ties stay in their order, and so no order is turned round"
        merged = concatenate([self.sorted(stream) for stream in streams])
        return merged if len(streams) == 1 else take(merged, self._stable_indices(merged))

    def _stable_indices(self, batch: Batch) -> "Sequence[int] | npt.NDArray[np.int64]":
        if not self.uses_columns(batch):
            return self._sort(range(length(batch)), self._keys(batch).__getitem__)
        names = self._names(batch.schema.names if is_arrow(batch) else batch.dtype.names or ())
        if is_arrow(batch):
            return _sort_columns([(sortable(batch.column(name)), "ascending") for name in names])
        import numpy as np

        return np.lexsort([batch[name] for name in reversed(names)])

    def _is_columnar(self, batch: Batch) -> bool:
        return self.uses_columns(batch) and (is_arrow(batch) or not (batch.dtype.hasobject or batch.ndim > 1))

    # ------------------------------------------------------------------ records

    def _ranked(self, batch: Batch, limit: int | None) -> Sequence[int]:
        rows = records(batch)
        keys = self._keys(batch)
        if limit == 1 and rows:
            return [first_by_content(rows, self._least(keys))]
        ranked = self._sort(range(len(rows)), keys.__getitem__)
        # The record after the last one shows whether there is a choice.
        if self._has_no_ties([keys[place] for place in (ranked if limit is None else ranked[: limit + 1])]):
            return ranked[:limit]
        comes_before = gt if self.reverse else lt
        settled: list[int] = []
        start = 0
        for stop, (one, other) in enumerate(pairwise(map(keys.__getitem__, ranked)), 1):
            if comes_before(one, other):
                settled += _by_content(ranked[start:stop], rows)
                start = stop
                if limit is not None and len(settled) >= limit:
                    return settled[:limit]
        return (settled + _by_content(ranked[start:], rows))[:limit]

    def _least(self, keys: Sequence[Any]) -> list[int]:
        try:
            first = max(keys) if self.reverse else min(keys)
        except TypeError as error:
            raise self._not_comparable(error) from error
        comes_before = gt if self.reverse else lt
        return [place for place, key in enumerate(keys) if not comes_before(first, key)]

    def _keys(self, batch: Batch) -> Sequence[Any]:
        by = self.by
        if by is None:
            keys = records(batch)
        elif callable(by):
            keys = [by(record) for record in records(batch)]  # map() would end at a StopIteration, and lose the rest
        else:
            keys = Keys(by[0] if isinstance(by, tuple) and len(by) == 1 else by).of(batch)
        return nan_last(keys, reverse=self.reverse)

    def _has_no_ties(self, in_order: Sequence[Any]) -> bool:
        return all(map(gt if self.reverse else lt, in_order, islice(in_order, 1, None)))

    def _is_decided(self, rows: list[Any], in_order: list[Any], limit: int | None) -> bool:
        contested = in_order
        if limit is not None and limit < len(rows):
            comes_before = gt if self.reverse else lt
            end, last = limit, in_order[limit - 1]
            while end < len(rows) and not comes_before(last, in_order[end]):
                end += 1
            rows = contested = in_order[:end]
        kinds = set(map(type, rows))  # in this order, rows lie side by side in memory, which makes the pass much faster
        return (len(kinds) == 1 and kinds <= _EQUAL_IF_COMPARED) or self._has_no_ties(contested)

    def _sort(self, values: Sequence[Any], key: Callable[[Any], Any] | None) -> list[Any]:
        try:
            return sorted(values, key=key, reverse=self.reverse)
        except TypeError as error:
            raise self._not_comparable(error) from error

    def _not_comparable(self, error: TypeError) -> TypeError:
        what = "records" if self.by is None else "the values by which records are ordered"
        return TypeError(
            f"{what} cannot be compared: {error}; order by a function of a record that returns what can be"
        )

    # ------------------------------------------------------------------ columns

    def _names(self, known: Sequence[str]) -> list[str]:
        assert not callable(self.by), "asked for names only"
        names = list(known) if self.by is None else [self.by] if isinstance(self.by, str) else list(self.by)
        for name in names:
            if name not in known:
                raise KeyError(f"no column {name!r} to order by; the batch has {list(known)}")
        return names

    def _arrow_indices(self, batch: Batch) -> "npt.NDArray[np.int64]":
        names = self._names(batch.schema.names)
        columns = [(sortable(batch.column(name)), "descending" if self.reverse else "ascending") for name in names]
        others = sorted(set(batch.schema.names) - set(names))
        return _sort_columns(columns + [(_telling_apart(batch.column(name)), "ascending") for name in others])

    def _numpy_indices(self, batch: Batch) -> "npt.NDArray[np.int64]":
        import numpy as np

        if batch.dtype.names is None and self.by is not None:
            raise KeyError(f"no field {self.by!r} to order by; the array's dtype is {batch.dtype}")
        names = None if batch.dtype.names is None else self._names(batch.dtype.names)
        found = np.argsort(batch, kind="stable", order=names)  # fields that are not named break ties
        if not self.reverse:
            return found
        columns = [batch] if names is None else [batch[name] for name in names]
        return _with_nan_last(found[::-1], columns)


def _sort_columns(columns: "Sequence[tuple[pa.ChunkedArray, str]]") -> "npt.NDArray[np.int64]":
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = [str(place) for place in range(len(columns))]
    table = pa.table([column for column, _ in columns], names=labels)
    keys = [(label, direction) for label, (_, direction) in zip(labels, columns, strict=True)]
    found: npt.NDArray[np.int64] = pc.sort_indices(table, sort_keys=keys).to_numpy()
    return found


def _with_nan_last(found: "npt.NDArray[np.int64]", columns: "list[npt.NDArray[Any]]") -> "npt.NDArray[np.int64]":
    import numpy as np

    missing = [column.dtype.kind in "fcmM" and np.isnan(column) for column in columns]
    if not any(map(np.any, missing)):
        return found
    place = np.empty(len(found), np.int64)
    place[found] = np.arange(len(found))
    downwards = [-np.unique(column, return_inverse=True)[1] for column in columns]
    ranks = [np.where(nan, 1, rank) for rank, nan in zip(downwards, missing, strict=True)]
    return np.lexsort([place, *reversed(ranks)])


def check_order(name: str, by: object, schema: "pa.Schema | None" = None) -> None:
    """Raise GraphError unless records of a stream with ``schema`` can be ordered by ``by``."""
    if by is not None:
        check_by(name, "order by", by, schema)


def take(batch: Batch, indices: "Sequence[int] | npt.NDArray[np.int64]") -> Batch:
    """Return the records at ``indices``, in their order, as a batch of the same kind.

    >>> take(["a", "b", "c"], [2, 0])
    ['c', 'a']
    """
    if isinstance(batch, list):
        places = indices if isinstance(indices, list) else list(map(int, indices))
        return [batch[place] for place in places]
    import numpy as np

    where = np.asarray(indices, dtype=np.int64)
    return batch.take(where) if is_arrow(batch) else batch[where]


def first_by_content(rows: Sequence[Any], places: Sequence[int]) -> int:
    """Return the index in ``places`` whose record comes first in a total order of records."""
    return places[0] if len(places) == 1 else min(places, key=_content_key(rows, places))


def _by_content(places: list[int], rows: Sequence[Any]) -> list[int]:
    return places if len(places) == 1 else sorted(places, key=_content_key(rows, places))


def _content_key(rows: Sequence[Any], places: Sequence[int]) -> Callable[[int], Any]:
    """Return a sort key of records by content: their types, then the records themselves or their hashes.

    This is a total order, so the first record does not depend on which records were compared before.
    """
    kinds = set(map(_kind, map(rows.__getitem__, places)))
    if len(kinds) == 1 and _is_told_apart(next(iter(kinds))):
        return rows.__getitem__
    try:
        return {place: _typed_content(rows[place]) for place in places}.__getitem__
    except TypeError as error:
        raise TypeError(
            f"the order does not tell {short(rows[places[0]])} and {short(rows[places[1]])} apart, and {error}; "
            "order by something that differs"
        ) from error


def _kind(record: Any) -> type | tuple[type, ...]:
    return tuple(map(type, record)) if type(record) is tuple else type(record)


def _is_told_apart(kind: type | tuple[type, ...]) -> bool:
    return _TOLD_APART.issuperset(kind if isinstance(kind, tuple) else (kind,))


def _typed_content(record: Any) -> tuple[str, Any]:
    kind = _kind(record)
    return str(kind), record if _is_told_apart(kind) else record_hash(record)


def _telling_apart(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_nested(column.type) and not kinds.is_dictionary(column.type):
        return pa.array([record_hash(value) for value in column.to_pylist()], pa.uint64())
    return sortable(column)


def nan_last(keys: Sequence[Any], *, reverse: bool = False) -> Sequence[Any]:
    """Return sort keys that put NaN last, also within tuples and lists; return ``keys`` themselves if they have no NaN.

    With ``reverse``, NaN comes last in descending order.

    >>> numbers = [3.0, float("nan"), 1.0]
    >>> [numbers[place] for place in sorted(range(3), key=nan_last(numbers).__getitem__)]
    [1.0, 3.0, nan]
    """
    if len(keys) < 2 or not _may_have_nan(keys):
        return keys
    return [_placed(key, reverse) for key in keys]


def _may_have_nan(keys: Sequence[Any]) -> bool:
    first = keys[0]
    if type(first) in _NO_NAN:
        return False
    try:
        if type(first) is float or type(first) is int:
            return isnan(sum(keys))  # by far the fastest check
        if isinstance(first, tuple | list):
            places = range(max(map(len, keys)))
            return any(_may_have_nan(list(map(itemgetter(place), keys))) for place in places)
        return any(map(ne, keys, keys))
    except (TypeError, ValueError, IndexError, ArithmeticError):  # keys of several types or lengths, or too large
        return True


def _placed(key: Any, reverse: bool) -> Any:
    if isinstance(key, tuple) and type(key).__lt__ is tuple.__lt__:  # no named one with an order of its own
        return tuple([_placed(part, reverse) for part in key])
    if type(key) is list:
        return [_placed(part, reverse) for part in key]
    if is_nan(key):
        return (0,) if reverse else (1,)
    return (1, key) if reverse else (0, key)
