"""A dict in two layers: in front what was set since it was settled, behind that all that there was then.

Setting a value costs what it costs in any dict, and reading one that lies in front, too. What lies behind does not
change until the dict is settled again; so another thread can read it meanwhile.

Values that cannot change are numbers, strings, bytes, and tuples of these. All others may be changed in place by who
reads them, so they come to the front when they are read.
"""

from collections import deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain, compress, filterfalse, islice, repeat
from operator import is_
from typing import Any, ClassVar, NamedTuple, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

MOST_IN_FRONT = 4
"""Where more than one key in so many has been set, all are brought to the front, so that it is not there twice."""
_FEW = 1 << 12
"""So few keys may be there twice."""
_UNCHANGING = frozenset({int, float, complex, bool, str, bytes, type(None)})
_MISSING: Any = object()
_set, _get, _has = dict.__setitem__, dict.get, dict.__contains__  # faster than through super(), which hot loops feel


def is_unchanging(value: Any) -> bool:
    """Return whether a value cannot be changed in place."""
    kind = type(value)
    return kind in _UNCHANGING or (kind is tuple and _UNCHANGING.issuperset(map(type, value)))


def are_unchanging(values: Iterable[Any]) -> bool:
    """Return what `is_unchanging` returns of all, fast."""
    kinds = set(map(type, values))
    if kinds <= _UNCHANGING:
        return True
    parts = chain.from_iterable(compress(values, map(is_, map(type, values), repeat(tuple))))
    return kinds <= _UNCHANGING | {tuple} and _UNCHANGING.issuperset(map(type, parts))


class Settled(NamedTuple):
    """What had happened to a dict since it was settled before.

    Attributes:
        keys: those that were set, or read if their value may be changed in place, and ``values``, theirs.
        gone: those that were deleted and that are not there.
    """

    keys: list[Any]
    values: list[Any]
    gone: list[Any]


class LayeredDict(dict[Key, Value]):
    """A dict that knows what was set or deleted since it was settled.

    The dict itself is the front, and ``_back`` what lies behind; ``_gone`` are keys of that which were deleted since.
    While something lies behind, the class is another; see `TwoLayers`. Functions in C that read the memory of a dict,
    and do not call its methods, find the front alone.

    Args:
        entries: what it has to begin with; it lies behind.
        make: returns the value of a key that is read and has none; without it, that is a KeyError.
    """

    _classes: ClassVar[tuple[type[Any], type[Any]]]
    """The class while all is in front, and the one while something lies behind."""

    __slots__ = ("_back", "_counted", "_gone", "_is_forward", "_make", "_may_change", "_new")

    def __init__(
        self, entries: Mapping[Key, Value] | Iterable[tuple[Key, Value]] = (), make: Callable[[], Value] | None = None
    ) -> None:
        super().__init__()
        self._make = make
        self._back: dict[Key, Value] = {}
        self._is_forward = False  # whether all was brought to the front since it was settled
        self._gone: set[Key] = set()
        self._counted = 0  # so many of the keys in front have been looked at, and ``_new`` of these are not behind
        self._new = 0
        self._may_change = True  # whether values may be behind that may be changed in place
        self.put_behind(dict(entries))

    # ------------------------------------------------------------------ what changes it

    def __missing__(self, key: Key) -> Value:
        value = self._behind(key)
        if value is _MISSING:
            if self._make is None:
                raise KeyError(key)
            self[key] = value = self._make()
        found: Value = value
        return found

    def _behind(self, key: Key) -> Any:
        """Return a value that lies behind; bring it to the front if it may be changed in place."""
        value = self._back.get(key, _MISSING)
        if value is _MISSING or (self._gone and key in self._gone):
            return _MISSING
        if not is_unchanging(value):
            _set(self, key, value)
        if MOST_IN_FRONT * dict.__len__(self) > len(self._back) > _FEW:
            self._bring_forward()
        return value

    def get(self, key: Key, default: Any = None, /) -> Any:
        """Return the value of a key, else the default."""
        value = _get(self, key, _MISSING)
        if value is _MISSING:
            value = self._behind(key)
            if value is _MISSING:
                return default
        return value

    def _is_behind(self, key: object) -> bool:
        return key in self._back and not (self._gone and key in self._gone)

    def setdefault(self, key: Key, default: Any = None, /) -> Any:
        """Return the value of a key; set it to the default first if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Key, default: Any = _MISSING, /) -> Any:
        """Take a key out, and return its value."""
        if key not in self:
            if default is _MISSING:
                raise KeyError(key)
            return default
        if not self._back:
            return super().pop(key)
        len(self)  # so that the key counts as what it is
        is_behind = self._is_behind(key)
        if is_behind:
            self._gone.add(key)
        if not _has(self, key):
            return self._back[key]
        self._counted -= 1
        self._new -= not is_behind
        return super().pop(key)

    def popitem(self) -> tuple[Key, Value]:
        """Take the key that was set last out, and return it with its value."""
        if not self:
            raise KeyError("popitem(): dictionary is empty")
        if not self._back:
            return super().popitem()
        new = (key for key in super().__reversed__() if not self._is_behind(key))
        old = (key for key in reversed(self._back) if key not in self._gone)
        key = next(new if self._new else old)
        return key, self.pop(key)

    def clear(self) -> None:
        """Take all keys out."""
        super().clear()
        self.put_behind({})

    def __ior__(self, other: Any) -> "LayeredDict[Key, Value]":  # type: ignore[override]
        self.update(other)
        return self

    # ------------------------------------------------------------------ what reads all of it

    def keys(self) -> Any:
        """Return a view of the keys."""
        return KeysView(self)

    def values(self) -> Any:
        """Return a view of the values; those that may be changed in place come to the front."""
        return _Values(self)

    def items(self) -> Any:
        """Return a view of the pairs; those with values that may be changed in place come to the front."""
        return _Items(self)

    def copy(self) -> dict[Key, Value]:
        """Return a plain dict of the same; values that may be changed in place come to the front."""
        return dict(self._all_read())

    def _all_read(self) -> dict[Key, Value]:
        """Return all keys and values; the caller may change values in place."""
        if self._may_change:
            found = [pair for pair in self._back.items() if not is_unchanging(pair[1])]
            self.update((key, value) for key, value in found if not _has(self, key) and key not in self._gone)
        return self._all()

    def _all(self) -> dict[Key, Value]:
        """Return all keys and values; the caller changes nothing of it."""
        if not self._back:
            return dict.copy(self)
        front = super().items()
        if not front and not self._gone:
            return self._back
        every = self._back.copy()
        _exhaust(map(every.__delitem__, self._gone))
        every.update(front)
        return every

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, LayeredDict) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self._all())

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return dict, (self.copy(),)

    def _bring_forward(self) -> None:
        """Have all in front, where most has been set anyway, rather than twice."""
        every = self._all()
        self.clear()
        self.update(every)
        self._is_forward = True

    # ------------------------------------------------------------------ its layers

    def settle(self, *, is_read: bool) -> Settled:
        """Put what is in front behind; return what had happened. Linear in that.

        Args:
            is_read: whether what was behind is being read, and has to stay as it is.
        """
        settled = Settled(
            list(dict.keys(self)), list(dict.values(self)), [key for key in self._gone if not _has(self, key)]
        )
        if not self._back:
            back = dict.copy(self)
        else:
            back = self._back.copy() if is_read else self._back
            _exhaust(map(back.__delitem__, self._gone))
            _exhaust(map(back.__setitem__, settled.keys, settled.values))
        super().clear()
        self.put_behind(back)
        return settled

    def put_behind(self, back: dict[Key, Value]) -> None:
        """Have what is given behind; nothing is in front."""
        self._back, self._gone = back, set()
        self._counted = self._new = 0
        self._is_forward = False
        self.__class__ = self._classes[bool(back)]


class TwoLayers(LayeredDict[Key, Value]):
    """The class of a `LayeredDict` while something lies behind.

    Python sets the value of a key more slowly where a class has methods of its own for deleting and looking up.
    """

    __slots__ = ()

    def __contains__(self, key: object) -> bool:
        return _has(self, key) or self._is_behind(key)

    def __delitem__(self, key: Key) -> None:
        self.pop(key)

    def __len__(self) -> int:
        in_front = dict.__len__(self)
        if in_front != self._counted:
            latest = islice(dict.__reversed__(self), in_front - self._counted)
            self._new += sum(not self._is_behind(key) for key in latest)
            self._counted = in_front
        return len(self._back) - len(self._gone) + self._new

    def __iter__(self) -> Iterator[Key]:
        return self._keys(len(self))

    def _keys(self, size: int) -> Iterator[Key]:
        """Yield the keys in the order in which they were set for the first time; reading values moves none."""
        back, gone = self._back, self._gone  # which may become others, when much is set meanwhile
        for key in filterfalse(gone.__contains__, back):
            if len(self) != size:
                raise RuntimeError("dictionary changed size during iteration")
            yield key
        for key in [key for key in dict.__iter__(self) if key not in back or key in gone]:
            if len(self) != size:
                raise RuntimeError("dictionary changed size during iteration")
            yield key

    def __reversed__(self) -> Iterator[Key]:
        return reversed(list(self))


class _Items(ItemsView[Any, Any]):
    """The pairs of a layered dict, at the speed of a dict."""

    _mapping: LayeredDict[Any, Any]

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        kept = self._mapping
        return iter(kept._all_read().items() if kept._back else dict.items(kept))


class _Values(ValuesView[Any]):
    """The values of a layered dict, at the speed of a dict."""

    _mapping: LayeredDict[Any, Any]

    def __iter__(self) -> Iterator[Any]:
        kept = self._mapping
        return iter(kept._all_read().values() if kept._back else dict.values(kept))


def _exhaust(iterator: Iterator[Any]) -> None:
    deque(iterator, 0)
