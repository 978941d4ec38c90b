"""A mapping from key to value that knows which of its keys have changed.

What has changed since the last cut is what the next snapshot writes. A cut copies references and no more, where values
cannot change: numbers, strings, bytes, and tuples of these. All other values are pickled in the cut, as the operator
may change them in place right after. For the same reason such a value counts as changed when it is read.

Old files are let go by sweeps. Each cut also writes some keys that have not changed, one key after another. Once all
have been written, the files before the sweep are needed no more. So nothing is ever rewritten in one piece.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from math import nan
from operator import is_
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

from tidewheel.runtime.state.state_pickling import Pickled, Stamp, pickle_state

Key = TypeVar("Key")
Value = TypeVar("Value")
Other = TypeVar("Other")

_UNCHANGING = frozenset({int, float, complex, bool, str, bytes, type(None)})
_LEAST_SWEPT = 1 << 12
"""A cut writes at least so many keys, if there are as many; so a small state is written whole each time."""
_MOST_CHANGED = 4
"""Where more than one key in so many has changed, all are written, and it is not noted which."""
_MISSING = object()
_set, _item, _get = dict.__setitem__, dict.__getitem__, dict.get  # faster than through super(), which hot loops feel


class GoneKeys(NamedTuple):
    """Keys that were no longer there."""

    keys: list[Any]


KeyedChanges: TypeAlias = list[bytes | GoneKeys]
"""What one worker has written of a keyed state, oldest first: pickled lists of pairs, and keys that were gone."""


def entries_of(changes: KeyedChanges, load: Callable[[bytes], Any]) -> dict[Any, Any]:
    """Return the keys and values that are left in the end; ``load`` unpickles pairs."""
    found: dict[Any, Any] = {}
    for change in changes:
        if isinstance(change, GoneKeys):
            for key in change.keys:
                found.pop(_with_one_nan(key), None)
        else:
            found.update((_with_one_nan(key), value) for key, value in load(change))
    return found


def _with_one_nan(key: Any) -> Any:
    """Return a key whose NaN, which was pickled, is found again as `math.nan`, here and by operators."""
    if isinstance(key, float):
        return key if key == key else nan  # noqa: PLR0124 - NaN is not
    if isinstance(key, tuple):
        parts = list(map(_with_one_nan, key))
        return key if all(map(is_, key, parts)) else tuple.__new__(type(key), parts)
    return key


class KeyedCut(NamedTuple):
    """What one cut of a keyed state has to write.

    Attributes:
        begins: whether it writes all keys, or the first ones of a sweep: what is before it may be needed no more once
            that sweep has ended.
        ends: whether it writes the last keys of the sweep.
        unchanging: pairs of key and value, of values that cannot change.
        pickled: a list of pairs of the others, pickled, with the tokens in them; None if there are none.
        gone: the keys that are no longer there.
        stamps: of all tokens in the state, those included that earlier cuts have written.
    """

    begins: bool
    ends: bool
    unchanging: list[tuple[Any, Any]]
    pickled: Pickled | None
    gone: list[Any]
    stamps: Sequence[Stamp] = ()


class KeyedState(dict[Key, Value]):
    """A dict whose changed keys the runtime knows; see `OperatorContext.keyed_state`.

    A value is changed in place only between reading it here and the end of that call of the operator.
    """

    __slots__ = ("_changed", "_stamps", "_sweep")

    def __init__(self, entries: Mapping[Key, Value] | Iterable[tuple[Key, Value]] = ()) -> None:
        super().__init__(entries)
        self._changed: set[Key] | None = None  # None: all
        self._sweep: Iterator[Key] | None = None
        self._stamps: dict[Key, list[Stamp]] = {}  # of the tokens that were in the value of a key when it was written

    # ------------------------------------------------------------------ what changes it

    def __setitem__(self, key: Key, value: Value) -> None:
        _set(self, key, value)
        changed = self._changed
        if changed is not None:
            changed.add(key)

    def __delitem__(self, key: Key) -> None:
        super().__delitem__(key)
        if self._changed is not None:
            self._changed.add(key)

    def __getitem__(self, key: Key) -> Value:
        value = _item(self, key)
        if type(value) not in _UNCHANGING and self._changed is not None:
            self._changed.add(key)
        return value

    @overload
    def get(self, key: Key, default: None = None, /) -> Value | None: ...
    @overload
    def get(self, key: Key, default: Value, /) -> Value: ...
    @overload
    def get(self, key: Key, default: Other, /) -> Value | Other: ...
    def get(self, key: Key, default: Any = None, /) -> Any:
        """Return the value of a key, else the default."""
        value = _get(self, key, _MISSING)
        if type(value) in _UNCHANGING:
            return value
        if value is _MISSING:
            return default
        if self._changed is not None:
            self._changed.add(key)
        return value

    def setdefault(self, key: Key, default: Any = None, /) -> Any:
        """Return the value of a key; set it to the default first if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    @overload
    def pop(self, key: Key, /) -> Value: ...
    @overload
    def pop(self, key: Key, default: Value, /) -> Value: ...
    @overload
    def pop(self, key: Key, default: Other, /) -> Value | Other: ...
    def pop(self, key: Key, default: Any = _MISSING, /) -> Any:
        """Take a key out, and return its value."""
        if self._changed is not None and key in self:
            self._changed.add(key)
        return super().pop(key) if default is _MISSING else super().pop(key, default)

    def popitem(self) -> tuple[Key, Value]:
        """Take the key that was set last out, and return it with its value."""
        key, value = super().popitem()
        if self._changed is not None:
            self._changed.add(key)
        return key, value

    def clear(self) -> None:
        """Take all keys out."""
        super().clear()
        self._changed = None

    def update(self, *others: Any, **named: Any) -> None:
        """Set the keys of another mapping, or of pairs."""
        given = dict(*others, **named)
        super().update(given)
        if self._changed is not None:
            self._changed.update(given)

    def __ior__(self, other: Any) -> "KeyedState[Key, Value]":  # type: ignore[override,misc]
        self.update(other)
        return self

    def __iter__(self) -> Iterator[Key]:
        return super().__iter__()  # without a method of this name, dict(), copy() and | would read past __getitem__

    def values(self) -> Any:
        """Return a view of the values; those that may be changed in place count as changed."""
        self._note_all_changeable()
        return super().values()

    def items(self) -> Any:
        """Return a view of the pairs; those with values that may be changed in place count as changed."""
        self._note_all_changeable()
        return super().items()

    def _note_all_changeable(self) -> None:
        if self._changed is not None:
            self._changed.update(key for key, value in super().items() if type(value) not in _UNCHANGING)

    # ------------------------------------------------------------------ what a snapshot writes

    def write_all_next(self) -> None:
        """Have the next cut write all keys, as what earlier ones have returned was not written."""
        self._changed, self._sweep = None, None

    def cut(self) -> KeyedCut:
        """Return what has changed since the last cut, and the next part of the sweep.

        Complexity: linear in these keys, and not in all.

        Raises:
            TypeError, AttributeError, PicklingError: a value cannot be pickled.
        """
        changed = self._changed
        if changed is None or _MOST_CHANGED * len(changed) > len(self) or len(self) <= _LEAST_SWEPT:
            return self._write_all()
        begins = self._sweep is None
        if self._sweep is None:
            self._sweep = iter(list(self))
        most = max(len(changed), _LEAST_SWEPT)
        swept = list(islice(self._sweep, most))
        ends = len(swept) < most
        if ends:
            self._sweep = None
        gone = [key for key in changed if key not in self]
        cut = self._written(begins, ends, changed.union(key for key in swept if key in self).difference(gone), gone)
        self._changed = set()
        return cut

    def _write_all(self) -> KeyedCut:
        self._stamps.clear()  # of keys that were gone when it was not noted which
        cut = self._written(True, True, self, [])
        self._changed, self._sweep = set(), None
        return cut

    def _written(self, begins: bool, ends: bool, keys: Iterable[Any], gone: list[Any]) -> KeyedCut:
        pairs = list(super().items()) if keys is self else [(key, _item(self, key)) for key in keys]
        if not self._stamps and _UNCHANGING.issuperset(map(type, (value for _, value in pairs))):
            return KeyedCut(begins, ends, pairs, None, gone)
        unchanging = [pair for pair in pairs if _is_unchanging(pair[1])]
        pickled, others = None, []
        if len(unchanging) < len(pairs):
            others = [pair for pair in pairs if not _is_unchanging(pair[1])]
            pickled = pickle_state(others)
        if self._stamps or (pickled is not None and pickled.tokens):
            self._find_stamps(others, chain(gone, (key for key, _ in unchanging)))
        return KeyedCut(begins, ends, unchanging, pickled, gone, list(chain.from_iterable(self._stamps.values())))

    def _find_stamps(self, pairs: Iterable[tuple[Any, Any]], without: Iterable[Any]) -> None:
        """Note which keys have tokens: of those that are written now, as the others' have not changed."""
        for key in without:
            self._stamps.pop(key, None)
        for key, value in pairs:
            stamps = [token._stamp for token in pickle_state(value).tokens]
            if stamps:
                self._stamps[key] = stamps
            else:
                self._stamps.pop(key, None)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return dict, (dict(self.items()),)


def _is_unchanging(value: Any) -> bool:
    kind = type(value)
    return kind in _UNCHANGING or (kind is tuple and _UNCHANGING.issuperset(map(type, value)))
