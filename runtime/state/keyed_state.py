"""A mapping from key to value that knows which of its keys have changed.

What has changed since the last cut is what the next snapshot writes. It lies in front of all else, which stays as it
is until the next cut, so a thread writes a cut while the operator goes on; see `LayeredDict`. A value that may be
changed in place is pickled in the cut itself, as the operator may change it right after. For the same reason it counts
as changed when it is read.

Old files are let go by sweeps. Each cut also writes some keys that have not changed, one key after another. Once all
have been written, the files before the sweep are needed no more. So nothing is ever rewritten in one piece.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice
from math import nan
from operator import is_, not_
from typing import Any, NamedTuple, TypeAlias, TypeVar

from tidewheel.runtime.state.layered_dict import (
    MOST_IN_FRONT,
    LayeredDict,
    Settled,
    TwoLayers,
    are_unchanging,
    is_unchanging,
)
from tidewheel.runtime.state.state_pickling import Pickled, Stamp, pickle_state

Key = TypeVar("Key")
Value = TypeVar("Value")

_LEAST_SWEPT = 1 << 12
"""A cut writes at least so many keys, if there are as many; so a small state is written whole each time."""
_MOST_PATIENCE = 7
"""All stays in front for at most so many cuts before it is looked again whether most of it changes."""
_AT_ONCE = 1000
"""So many pairs are written in one go; then other threads have their turn."""

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


class Reading:
    """The pairs of a cut whose values cannot change, a few at a time; another thread than the worker's may read them.

    Attributes:
        is_over: whether all have been read, so that nothing needs to stay as it was.
    """

    def __init__(self, *parts: Iterable[Pairs]) -> None:
        self._parts = parts
        self.is_over = False

    def __iter__(self) -> Iterator[Pairs]:
        yield from chain.from_iterable(self._parts)
        self.is_over = True


class KeyedCut(NamedTuple):
    """What one cut of a keyed state has to write.

    Attributes:
        begins: whether it writes all keys, or the first ones of a sweep: what is before it may be needed no more once
            that sweep has ended.
        ends: whether it writes the last keys of the sweep.
        unchanging: the pairs whose values cannot change.
        pickled: the pairs of the others, pickled, with the tokens in them; None if there are none.
        gone: the keys that are no longer there.
        stamps: of all tokens in the state, those included that earlier cuts have written.
    """

    begins: bool
    ends: bool
    unchanging: Iterable[Pairs]
    pickled: Pickled | None
    gone: list[Any]
    stamps: Sequence[Stamp] = ()


class KeyedState(LayeredDict[Key, Value]):
    """A dict whose changed keys the runtime knows; see `OperatorContext.keyed_state`.

    A value is changed in place only between reading it here and the end of that call of the operator.
    """

    __slots__ = ("_forward", "_is_written", "_patience", "_reading", "_stamps", "_sweep")

    def __init__(
        self, entries: Mapping[Key, Value] | Iterable[tuple[Key, Value]] = (), make: Callable[[], Value] | None = None
    ) -> None:
        super().__init__(entries, make)
        self._is_written = False  # whether cuts have written what lies behind
        self._patience = 0  # for so many cuts all stays in front, once most of it was brought there between two cuts
        self._forward = 0  # for so many cuts more
        self._reading: Reading | None = None
        self._sweep: Iterator[Key] | None = None
        self._stamps: dict[Key, list[Stamp]] = {}  # of the tokens that were in the value of a key when it was written

    def write_all_next(self) -> None:
        """Have the next cut write all keys, as what earlier ones have returned was not written."""
        self._is_written = False

    def cut(self) -> KeyedCut:
        """Return what has changed since the last cut, and the next part of the sweep.

        Complexity: linear in these keys, and not in all.

        Raises:
            TypeError, AttributeError, PicklingError: a value cannot be pickled.
        """
        is_written, self._is_written = self._is_written and bool(self._back), False
        if self._stays_forward():
            cut = self._cut_all(list(self), list(dict.values(self)))
        else:
            changed = self.settle(is_read=self._reading is not None and not self._reading.is_over)
            count = len(changed.keys) + len(changed.gone)
            if is_written and MOST_IN_FRONT * count <= len(self) and len(self) > _LEAST_SWEPT:
                self._patience = 0
                cut = self._cut_some(changed)
            else:
                cut = self._cut_all(list(self._back), list(self._back.values()))
        self._is_written = True
        return cut

    def _stays_forward(self) -> bool:
        """Tell whether all stays in front, as most of it changes from cut to cut; it is looked at again ever less."""
        if self._is_forward:
            self._is_forward = False
            self._patience = self._forward = min(2 * self._patience + 1, _MOST_PATIENCE)
        self._forward -= 1
        return self._forward >= 0 and not self._back

    def _cut_some(self, changed: Settled) -> KeyedCut:
        begins = self._sweep is None
        if self._sweep is None:
            self._sweep = iter(list(self._back))
        most = max(len(changed.keys), _LEAST_SWEPT)
        swept = list(islice(self._sweep, most))
        ends = len(swept) < most
        if ends:
            self._sweep = None
        if not self._may_change and are_unchanging(changed.values):
            self._reading = Reading(_slices(changed.keys, changed.values), _found(swept, self._back))
            return KeyedCut(begins, ends, self._reading, None, changed.gone)
        keys = list(dict.fromkeys(chain(changed.keys, (key for key in swept if key in self._back))))
        return self._cut_of(begins, ends, keys, list(map(self._back.__getitem__, keys)), changed.gone)

    def _cut_all(self, keys: list[Key], values: list[Value]) -> KeyedCut:
        self._sweep = self._reading = None
        self._stamps.clear()  # of keys that were gone when it was not noted which
        self._may_change = not are_unchanging(values)
        if self._may_change:
            return self._cut_of(True, True, keys, values, [])
        return KeyedCut(True, True, Reading(_slices(keys, values)), None, [])

    def _cut_of(self, begins: bool, ends: bool, keys: list[Key], values: list[Value], gone: list[Key]) -> KeyedCut:
        """Return a cut of pairs some of which may change, or have had tokens."""
        is_fixed = list(map(is_unchanging, values))
        may_change = list(map(not_, is_fixed))
        fixed, others = ((list(compress(keys, some)), list(compress(values, some))) for some in (is_fixed, may_change))
        pickled = pickle_state(others) if others[0] else None
        self._may_change = self._may_change or pickled is not None
        if self._stamps or (pickled is not None and pickled.tokens):
            self._find_stamps(zip(*others, strict=True), chain(gone, fixed[0]))
        self._reading = None
        stamps = list(chain.from_iterable(self._stamps.values()))
        return KeyedCut(begins, ends, Reading(_slices(*fixed)), pickled, gone, stamps)

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


def _slices(keys: list[Any], values: list[Any]) -> Iterator[Pairs]:
    for first in range(0, len(keys), _AT_ONCE):
        yield keys[first : first + _AT_ONCE], values[first : first + _AT_ONCE]


def _found(keys: list[Any], among: dict[Any, Any]) -> Iterator[Pairs]:
    """Yield those of the keys that are there."""
    for some, _ in _slices(keys, keys):
        there = [key for key in some if key in among]
        yield there, list(map(among.__getitem__, there))


class _InTwoLayers(TwoLayers[Key, Value], KeyedState[Key, Value]):
    """The class of a `KeyedState` while something lies behind."""

    __slots__ = ()


KeyedState._classes = KeyedState, _InTwoLayers
