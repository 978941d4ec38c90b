"""A mapping from key to value that knows which keys have changed, for snapshots.

A snapshot writes the keys that have changed since the last cut. A cut copies only references to immutable values:
numbers, strings, bytes, and tuples of these. Other values count as changed whenever they are read, and the cut pickles
them at once, since the operator may change them in place afterwards.

Noting changes costs time. So a state in which most keys change notes nothing, and each cut writes all of it. The state
then has a class that does not override setting and reading, so it is as fast as a dict.

A *sweep* makes old files unnecessary, without writing the whole state again in one piece: each cut also writes some
unchanged keys. Once all keys have been written, the files from before the sweep may be removed. The writing thread
reads the unchanged keys while the operator goes on; see `Sweep`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import is_not, not_
from typing import Any, NamedTuple, TypeAlias, TypeVar

from tidewheel.batches.one_nan import with_one_nan
from tidewheel.runtime.state.state_pickling import Pickled, Stamp, pickle_state
from tidewheel.runtime.state.sweep import AT_ONCE, MISSING, UNCHANGING, Pairs, Sweep, are_unchanging, is_unchanging

Key = TypeVar("Key")
Value = TypeVar("Value")

_LEAST_SWEPT = 1 << 12
"""Each cut writes at least this many keys, if there are so many; so a small state is always written whole."""
_MOST_CHANGED = 4
"""If more than one in this many keys has changed, a cut writes all keys, and no changes are noted for the next cuts."""
_MOST_PATIENCE = 15
"""The greatest number of cuts for which changes are not noted."""
_are_unchanging = UNCHANGING.issuperset
_set, _get = dict.__setitem__, dict.get  # faster than through super(), which hot loops feel


class GoneKeys(NamedTuple):
    keys: list[Any]


KeyedChanges: TypeAlias = list[bytes | GoneKeys]
"""One worker's written changes of a keyed state, oldest first: pickled `Pairs`, and keys that are gone."""


def entries_of(changes: KeyedChanges, load: Callable[[bytes], Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for change in changes:
        if isinstance(change, GoneKeys):
            for key in change.keys:
                found.pop(with_one_nan(key), None)
        else:
            keys, values = load(change)
            found.update(zip(map(with_one_nan, keys), values, strict=True))
    return found


class KeyedCut(NamedTuple):
    """The keys that one cut of a keyed state writes.

    Attributes:
        begins: whether the cut writes all keys, or begins a sweep. Once the sweep has ended, earlier cuts are not
            needed.
        ends: whether all keys have been written since the beginning of the sweep.
        unchanging: pairs with immutable values, in chunks. Read them once, on any thread.
        pickled: the other pairs, pickled with their tokens; None if there are none.
        stamps: the places of all tokens in the state, including tokens that earlier cuts have written.
    """

    begins: bool
    ends: bool
    unchanging: Iterable[Pairs]
    pickled: Pickled | None
    gone: list[Any]
    stamps: Sequence[Stamp] = ()


class KeyedState(dict[Key, Value]):
    """A dict that tells the runtime which keys have changed; see `OperatorContext.keyed_state`.

    An operator may change a value in place only in the call in which it has read the value. Never keep a bound method
    such as ``__setitem__`` from one call to the next.

    A state has this class while it notes no changes, otherwise `_Noting`.

    Args:
        make: makes the value when a missing key is read. By default that raises KeyError.
    """

    __slots__ = (
        "_changeable",
        "_changed",
        "_make",
        "_most_changed",
        "_order",
        "_patience",
        "_skips",
        "_stamps",
        "_sweep",
        "_swept",
    )

    def __init__(
        self, entries: Mapping[Key, Value] | Iterable[tuple[Key, Value]] = (), make: Callable[[], Value] | None = None
    ) -> None:
        super().__init__(entries)
        self._make = make
        self._changed: dict[Key, Any] | None = None  # with their values, MISSING for removed ones; None: all keys
        self._changeable: set[Key] = set()  # the changed keys with values that may be changed in place
        self._most_changed = 0  # if more have changed, all count as changed
        self._patience = 0  # the number of cuts for which nothing was noted the last time
        self._skips = 0  # the number of further cuts for which nothing is noted
        self._order: list[Key] = []  # the keys that a sweep reads; earlier cuts have the first ``_swept``
        self._swept = 0
        self._sweep: Sweep | None = None  # of the last cut, while it reads keys
        self._stamps: dict[Key, list[Stamp]] = {}  # by key, the stamps of the tokens in its value at the last write

    # ------------------------------------------------------------------ changes

    def __missing__(self, key: Key) -> Value:
        if self._make is None:
            raise KeyError(key)
        self[key] = value = self._make()
        return value

    def get(self, key: Key, default: Any = None, /) -> Any:
        value = _get(self, key, MISSING)
        if type(value) in UNCHANGING:
            return value
        if value is MISSING:
            return default
        if self._changed is not None and not is_unchanging(value):
            self._changed[key] = value
            self._changeable.add(key)
        return value

    def setdefault(self, key: Key, default: Any = None, /) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Key, default: Any = MISSING, /) -> Any:
        if self._changed is not None and key in self:
            self._changed[key] = MISSING
        return super().pop(key) if default is MISSING else super().pop(key, default)

    def popitem(self) -> tuple[Key, Value]:
        key, value = super().popitem()
        if self._changed is not None:
            self._changed[key] = MISSING
        return key, value

    def clear(self) -> None:
        super().clear()
        self._note(None)

    def update(self, *others: Any, **named: Any) -> None:
        if self._changed is not None:
            others, named = (dict(*others, **named),), {}  # reading `others` may read the state, and so end the noting
        if self._changed is not None:
            self._changed.update(*others)
            if not are_unchanging(others[0].values()):
                self._changeable.update(key for key, value in others[0].items() if not is_unchanging(value))
        super().update(*others, **named)

    def __ior__(self, other: Any) -> "KeyedState[Key, Value]":  # type: ignore[override,misc]
        self.update(other)
        return self

    def values(self) -> Any:
        """Return a view of the values; mutable values then count as changed."""
        self._note_all_changeable()
        return super().values()

    def items(self) -> Any:
        """Return a view of the pairs; mutable values then count as changed."""
        self._note_all_changeable()
        return super().items()

    def _note_all_changeable(self) -> None:
        if self._changed is not None and not are_unchanging(super().values()):
            found = {key: value for key, value in super().items() if not is_unchanging(value)}
            self._changed.update(found)
            self._changeable.update(found)

    def _note(self, changed: dict[Key, Any] | None) -> None:
        self._changed, self._changeable = changed, set()
        self._most_changed = max(_LEAST_SWEPT, len(self) // _MOST_CHANGED)
        self.__class__ = KeyedState if changed is None else _Noting

    def _much_has_changed(self) -> None:
        self._patience = self._skips = min(2 * self._patience + 1, _MOST_PATIENCE)
        self._note(None)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return dict, (dict(self.items()),)

    # ------------------------------------------------------------------ cuts

    def write_all_next(self) -> None:
        """Let the next cut write all keys, since writing the files of the last cuts has failed."""
        self._note(None)

    def cut(self) -> KeyedCut:
        """Return the changes since the last cut, and the next part of the sweep; linear in the keys of both.

        Raises:
            TypeError, AttributeError, PicklingError: a value cannot be pickled.
        """
        changed, changeable, is_large = self._changed, self._changeable, len(self) > _LEAST_SWEPT
        is_swept = self._sweep is None or self._sweep.is_read
        if changed is not None and is_swept and is_large and _MOST_CHANGED * len(changed) <= len(self):
            self._note({})
            cut = self._cut_some(changed, changeable)
            self._patience = 0
        else:
            self._note({} if is_large and not self._skips else None)
            cut = self._cut_all()
        self._skips = max(0, self._skips - 1)
        return cut

    def _cut_some(self, changed: dict[Key, Any], changeable: set[Key]) -> KeyedCut:
        keys, values = list(changed), list(changed.values())
        if self._sweep is not None and self._sweep.left:
            left = [key for key in self._sweep.left if key not in changed]
            keys += left
            values += map(_get, repeat(self), left)
            changeable.update(left)
        are_there = list(map(is_not, values, repeat(MISSING)))
        gone: list[Key] = []
        if not all(are_there):
            gone = list(compress(keys, map(not_, are_there)))
            keys, values = list(compress(keys, are_there)), list(compress(values, are_there))
        if self._swept == 0 and not self._order:
            self._order = list(self)
        begins, first = self._swept == 0, self._swept
        self._swept += max(len(changed), _LEAST_SWEPT)
        self._sweep = Sweep(
            self, self._order, range(first, min(self._swept, len(self._order))), changed, lambda: self._changed
        )
        ends = first >= len(self._order)
        if ends:
            self._order, self._swept = [], 0
        is_fixed = [key not in changeable for key in keys] if changeable else []
        return self._cut_of(begins, ends, (keys, values), is_fixed, gone)

    def _cut_all(self) -> KeyedCut:
        self._stamps.clear()  # they may be of keys that were removed while nothing was noted
        keys, values = list(self), list(super().values())
        self._order, self._swept, self._sweep = keys if self._changed is not None else [], 0, None
        is_fixed = [] if are_unchanging(values) else list(map(is_unchanging, values))
        return self._cut_of(True, True, (keys, values), is_fixed, [])

    def _cut_of(self, begins: bool, ends: bool, pairs: Pairs, is_fixed: list[bool], gone: list[Key]) -> KeyedCut:
        swept: Iterable[Pairs] = self._sweep or ()
        if not is_fixed and not self._stamps:
            return KeyedCut(begins, ends, chain(_parts(*pairs), swept), None, gone)
        is_fixed = is_fixed or [True] * len(pairs[0])
        may_change = list(map(not_, is_fixed))
        fixed, others = (
            (list(compress(pairs[0], some)), list(compress(pairs[1], some))) for some in (is_fixed, may_change)
        )
        pickled = pickle_state(others) if others[0] else None
        if self._stamps or (pickled is not None and pickled.tokens):
            self._find_stamps(zip(*others, strict=True), chain(gone, fixed[0]))
        stamps = list(chain.from_iterable(self._stamps.values()))
        return KeyedCut(begins, ends, chain(_parts(*fixed), swept), pickled, gone, stamps)

    def _find_stamps(self, pairs: Iterable[tuple[Any, Any]], without: Iterable[Any]) -> None:
        for key in without:
            self._stamps.pop(key, None)
        for key, value in pairs:
            stamps = [token._stamp for token in pickle_state(value).tokens]
            if stamps:
                self._stamps[key] = stamps
            else:
                self._stamps.pop(key, None)


class _Noting(KeyedState[Key, Value]):
    """The class of a `KeyedState` that notes each change before it happens, as `Sweep` requires."""

    __slots__ = ()

    def __setitem__(self, key: Key, value: Value) -> None:
        changed = self._changed
        if changed is not None:
            changed[key] = value
            kind = type(value)
            if kind not in UNCHANGING and not (kind is tuple and _are_unchanging(map(type, value))):  # type: ignore[call-overload]
                self._changeable.add(key)
            if len(changed) > self._most_changed:
                self._much_has_changed()
        _set(self, key, value)

    def __delitem__(self, key: Key) -> None:
        if self._changed is not None and key in self:
            self._changed[key] = MISSING
        super().__delitem__(key)

    def __getitem__(self, key: Key) -> Value:
        value = _get(self, key, MISSING)
        if value is MISSING:
            return self.__missing__(key)
        kind = type(value)
        if kind not in UNCHANGING and not (kind is tuple and _are_unchanging(map(type, value))):
            changed = self._changed
            if changed is not None:
                changed[key] = value
                self._changeable.add(key)
                if len(changed) > self._most_changed:
                    self._much_has_changed()
        found: Value = value
        return found

    def __iter__(self) -> Iterator[Key]:
        return super().__iter__()  # without a method of this name, dict(), copy() and | would read past __getitem__


def _parts(keys: list[Any], values: list[Any]) -> Iterator[Pairs]:
    for first in range(0, len(keys), AT_ONCE):
        yield keys[first : first + AT_ONCE], values[first : first + AT_ONCE]
