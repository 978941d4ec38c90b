"""A warning that the keys of a join can never be equal, such as 1 and "1"."""

import logging
from collections.abc import Iterable, Sequence
from itertools import islice
from numbers import Number
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any

from tidewheel.host.log_lines import about
from tidewheel.operators.joins.join_keys import JoinKeys, matches_nothing
from tidewheel.runtime.worker.operator_context import OperatorContext

if TYPE_CHECKING:
    import pyarrow as pa

_LOGGER = logging.getLogger(__name__)
_MOST_KEYS = 100


class UnlikeKeys:
    """Compares the keys of both sides of a join, once on each worker, and logs a warning if none can match."""

    __slots__ = ("_name", "_worker", "is_compared")

    def __init__(self, context: OperatorContext) -> None:
        self._name = context.name
        self._worker = context.worker
        self.is_compared = False

    def compare(self, lefts: Iterable[Any], rights: Iterable[Any]) -> None:
        """Compare a few keys of both sides, once both sides have keys; O(1)."""
        if self.is_compared:
            return
        some, others = (list(islice(keys, _MOST_KEYS)) for keys in (lefts, rights))
        if some and others:
            self.is_compared = True
            self._warn(some, others)

    def compare_tables(self, keys: JoinKeys, left: "pa.Table | None", right: "pa.Table | None") -> None:
        """Compare a few keys of two tables, column by column."""
        if self.is_compared or not left or not right:
            return
        self.is_compared = True
        for name, other_name in zip(keys.left.names, keys.right.names, strict=True):
            one, other = left.column(name), right.column(other_name)
            if one.type != other.type and self._warn(_values(one), _values(other)):
                return

    def _warn(self, lefts: Sequence[Any], rights: Sequence[Any]) -> bool:
        difference = unlike(lefts, rights)
        if difference:
            where = about(operator=self._name, worker=self._worker)
            _LOGGER.warning("operator %r on worker %d: %s", self._name, self._worker, difference, extra=where)
        return bool(difference)


def unlike(lefts: Sequence[Any], rights: Sequence[Any]) -> str:
    """Describe how the keys of both sides differ, if values of their types can never be equal.

    Return an empty text if they may match, or if all keys of a side match nothing.

    >>> unlike([1, 2.5], ["1", None])[:74]
    'no key of one side can be equal to one of the other, as 1 is of type int a'
    >>> unlike([1, "a"], [2.5])
    ''
    """
    first, second = ({_kind(key): key for key in keys[::-1] if not matches_nothing(key)} for keys in (lefts, rights))
    if not first or not second or any(_may_be_equal(one, other) for one in first for other in second):
        return ""
    left, right = (next(iter(side.values())) for side in (first, second))
    return (
        f"no key of one side can be equal to one of the other, as {shown(left)} is of type {type(left).__name__} and "
        f"{shown(right)} is of type {type(right).__name__}: convert the keys of one side before"
    )


def _values(column: "pa.ChunkedArray") -> list[Any]:
    try:
        values: list[Any] = column.slice(0, _MOST_KEYS).to_pylist()
    except ValueError:  # times with nanoseconds raise it
        return []
    return values


def _kind(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_kind, key))
    return next((kind for kind in (Number, str, bytes) if isinstance(key, kind)), type(key))


def _may_be_equal(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) or isinstance(other, tuple):
        are_tuples = isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other)
        return are_tuples and all(map(_may_be_equal, one, other))
    return issubclass(one, other) or issubclass(other, one)
