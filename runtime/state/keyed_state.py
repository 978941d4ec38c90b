"""A mapping from key to value that knows which of its keys have changed.

What has changed since the last cut is what the next snapshot writes. A cut copies references and no more, where values
cannot change: numbers, strings, bytes, and tuples of these. All other values are pickled in the cut, as the operator
may change them in place right after. For the same reason such a value counts as changed when it is read.

Noting what changes takes time. Where much changes from cut to cut, nothing is noted, and each cut writes all. Then the
class has no methods of its own for setting and reading, so these take no longer than in any dict. From time to time it
is noted again what changes, ever less often.

Old files are let go by sweeps. Each cut also writes some keys that have not changed, one key after another. Once all
have been written, the files before the sweep are needed no more. So nothing is ever rewritten in one piece.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice, repeat
from math import nan
from operator import is_, is_not, not_
from typing import Any, NamedTuple, TypeAlias, TypeVar

from tidewheel.runtime.state.state_pickling import Pickled, Stamp, pickle_state

Key = TypeVar("Key")
Value = TypeVar("Value")

_UNCHANGING = frozenset({int, float, complex, bool, str, bytes, type(None)})
_LEAST_SWEPT = 1 << 12
"""A cut writes at least so many keys, if there are as many; so a small state is written whole each time."""
_MOST_CHANGED = 4
"""Where more than one key in so many has changed, all are written, and it is not noted which by the next cuts."""
_MOST_PATIENCE = 15
"""For at most so many cuts it is not noted what changes."""
_AT_ONCE = 1000
"""So many pairs are written in one go; then other threads have their turn."""
_MISSING: Any = object()
_set, _item, _get = dict.__setitem__, dict.__getitem__, dict.get  # faster than through super(), which hot loops feel

Pairs: TypeAlias = tuple[list[Any], list[Any]]
"""Keys, and their values."""


class GoneKeys(NamedTuple):
    """Keys that were no longer there."""

    keys: list[Any]


KeyedChanges: TypeAlias = list[bytes | GoneKeys]
"""What one worker has written of a keyed state, oldest first: pickled `Pairs`, and keys that were gone."""


def entries_of(changes: KeyedChanges, load: Callable[[bytes], Any]) -> dict[Any, Any]:
    """Return the keys and values that are left in the end; ``load`` unpickles pairs."""
    found: dict[Any, Any] = {}
    for change in changes:
        if isinstance(change, GoneKeys):
            for key in change.keys:
                found.pop(_with_one_nan(key), None)
        else:
            keys, values = load(change)
            found.update(zip(map(_with_one_nan, keys), values, strict=True))
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
        unchanging: those whose values cannot change, in parts.
        pickled: the others, pickled, with the tokens in them; None if there are none.
        gone: the keys that are no longer there.
        stamps: of all tokens in the state, those included that earlier cuts have written.
    """

    begins: bool
    ends: bool
    unchanging: list[Pairs]
    pickled: Pickled | None
    gone: list[Any]
    stamps: Sequence[Stamp] = ()


class KeyedState(dict[Key, Value]):
    """A dict whose changed keys the runtime knows; see `OperatorContext.keyed_state`.

    A value is changed in place only between reading it here and the end of that call of the operator. Nobody keeps a
    bound method with underscores, such as ``__setitem__``, from one call to the next.

    This is the class while nothing is noted; see `_Noting`.

    Args:
        entries: what it has to begin with.
        make: returns the value of a key that is read and has none; without it, that is a KeyError.
    """

    __slots__ = ("_changed", "_make", "_most_changed", "_patience", "_skips", "_stamps", "_sweep")

    def __init__(
        self, entries: Mapping[Key, Value] | Iterable[tuple[Key, Value]] = (), make: Callable[[], Value] | None = None
    ) -> None:
        super().__init__(entries)
        self._make = make
        self._changed: set[Key] | None = None  # None: all
        self._most_changed = 0  # if there are more, all count as changed
        self._patience = 0  # for so many cuts nothing was noted the last time
        self._skips = 0  # for so many cuts more nothing is noted
        self._sweep: Iterator[Key] | None = None
        self._stamps: dict[Key, list[Stamp]] = {}  # of the tokens that were in the value of a key when it was written

    # ------------------------------------------------------------------ what changes it

    def __missing__(self, key: Key) -> Value:
        if self._make is None:
            raise KeyError(key)
        self[key] = value = self._make()
        return value

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
        self._note(None)

    def update(self, *others: Any, **named: Any) -> None:
        """Set the keys of another mapping, or of pairs."""
        if self._changed is None:
            super().update(*others, **named)
            return
        given = dict(*others, **named)
        super().update(given)
        self._changed.update(given)

    def __ior__(self, other: Any) -> "KeyedState[Key, Value]":  # type: ignore[override,misc]
        self.update(other)
        return self

    def values(self) -> Any:
        """Return a view of the values; those that may be changed in place count as changed."""
        self._note_all_changeable()
        return super().values()

    def items(self) -> Any:
        """Return a view of the pairs; those with values that may be changed in place count as changed."""
        self._note_all_changeable()
        return super().items()

    def _note_all_changeable(self) -> None:
        if self._changed is not None and not are_unchanging(super().values()):
            self._changed.update(key for key, value in super().items() if not is_unchanging(value))

    def _note(self, changed: set[Key] | None) -> None:
        """Note from now on what changes; nothing, if everything is to count as changed."""
        self._changed = changed
        self._most_changed = max(_LEAST_SWEPT, len(self) // _MOST_CHANGED)
        self.__class__ = KeyedState if changed is None else _Noting

    def _much_has_changed(self) -> None:
        self._patience = self._skips = min(2 * self._patience + 1, _MOST_PATIENCE)
        self._note(None)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return dict, (dict(self.items()),)

    # ------------------------------------------------------------------ what a snapshot writes

    def write_all_next(self) -> None:
        """Have the next cut write all keys, as what earlier ones have returned was not written."""
        self._sweep = None
        self._note(None)

    def cut(self) -> KeyedCut:
        """Return what has changed since the last cut, and the next part of the sweep.

        Complexity: linear in these keys, and not in all.

        Raises:
            TypeError, AttributeError, PicklingError: a value cannot be pickled.
        """
        changed, is_large = self._changed, len(self) > _LEAST_SWEPT
        if changed is not None and is_large and _MOST_CHANGED * len(changed) <= len(self):
            cut = self._cut_some(changed)
            self._patience = 0
        else:
            cut = self._cut_all()
        self._note(set() if is_large and not self._skips else None)
        self._skips = max(0, self._skips - 1)
        return cut

    def _cut_some(self, changed: set[Key]) -> KeyedCut:
        sweep, most = self._sweep, max(len(changed), _LEAST_SWEPT)
        begins = sweep is None
        if sweep is None:
            sweep = iter(list(self))
        swept = list(islice(sweep, most))
        ends = len(swept) < most
        keys = [*changed, *(key for key in swept if key not in changed)]
        values: list[Any] = list(map(_get, repeat(self), keys, repeat(_MISSING)))
        gone = [key for key, value in zip(changed, values, strict=False) if value is _MISSING]
        are_there = list(map(is_not, values, repeat(_MISSING)))
        cut = self._cut_of(begins, ends, list(compress(keys, are_there)), list(compress(values, are_there)), gone)
        self._sweep = None if ends else sweep
        return cut

    def _cut_all(self) -> KeyedCut:
        self._stamps.clear()  # of keys that were gone when it was not noted which
        cut = self._cut_of(True, True, list(self), list(super().values()), [])
        self._sweep = None
        return cut

    def _cut_of(self, begins: bool, ends: bool, keys: list[Key], values: list[Value], gone: list[Key]) -> KeyedCut:
        if not self._stamps and are_unchanging(values):
            return KeyedCut(begins, ends, _parts(keys, values), None, gone)
        is_fixed = list(map(is_unchanging, values))
        may_change = list(map(not_, is_fixed))
        fixed, others = ((list(compress(keys, some)), list(compress(values, some))) for some in (is_fixed, may_change))
        pickled = pickle_state(others) if others[0] else None
        if self._stamps or (pickled is not None and pickled.tokens):
            self._find_stamps(zip(*others, strict=True), chain(gone, fixed[0]))
        stamps = list(chain.from_iterable(self._stamps.values()))
        return KeyedCut(begins, ends, _parts(*fixed), pickled, gone, stamps)

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


class _Noting(KeyedState[Key, Value]):
    """The class of a `KeyedState` while it is noted what changes."""

    __slots__ = ()

    def __setitem__(self, key: Key, value: Value) -> None:
        _set(self, key, value)
        changed = self._changed
        if changed is not None:
            changed.add(key)
            if len(changed) > self._most_changed:
                self._much_has_changed()

    def __delitem__(self, key: Key) -> None:
        super().__delitem__(key)
        if self._changed is not None:
            self._changed.add(key)

    def __getitem__(self, key: Key) -> Value:
        value = _get(self, key, _MISSING)
        if value is _MISSING:
            return self.__missing__(key)
        changed = self._changed
        if type(value) not in _UNCHANGING and changed is not None:
            changed.add(key)
            if len(changed) > self._most_changed:
                self._much_has_changed()
        found: Value = value
        return found

    def __iter__(self) -> Iterator[Key]:
        return super().__iter__()  # without a method of this name, dict(), copy() and | would read past __getitem__


def is_unchanging(value: Any) -> bool:
    """Return whether a value cannot be changed in place."""
    kind = type(value)
    return kind in _UNCHANGING or (kind is tuple and _UNCHANGING.issuperset(map(type, value)))


def are_unchanging(values: Iterable[Any]) -> bool:
    """Return whether `is_unchanging` holds of all, fast."""
    kinds = set(map(type, values))
    if kinds <= _UNCHANGING:
        return True
    parts = chain.from_iterable(compress(values, map(is_, map(type, values), repeat(tuple))))
    return kinds <= _UNCHANGING | {tuple} and _UNCHANGING.issuperset(map(type, parts))


def _parts(keys: list[Any], values: list[Any]) -> list[Pairs]:
    """Return the pairs, a few at a time."""
    firsts = range(0, len(keys), _AT_ONCE)
    return [(keys[first : first + _AT_ONCE], values[first : first + _AT_ONCE]) for first in firsts]
