"""A sweep: the unchanged keys that a cut of a keyed state writes. Also the check whether values are immutable."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, compress, repeat
from operator import is_
from typing import Any, TypeAlias

AT_ONCE = 1000
"""The number of pairs that are written at once; then other threads have their turn."""
MISSING: Any = object()
"""Stands for the value of a key that is gone."""
UNCHANGING = frozenset({int, float, complex, bool, str, bytes, type(None)})
"""The types whose values cannot change. Tuples of such values cannot change either."""

Pairs: TypeAlias = tuple[list[Any], list[Any]]
"""Keys, and their values in the same order."""


class Sweep:
    """Some keys of a state that had not changed at a cut. A thread reads them while the operator goes on.

    A key is noted before its value changes. So if a key is not noted after the read, the value read was that of the
    cut. Changed keys and mutable values are left to the next cut.

    Args:
        order: keys of the state; some may have been changed or removed since.
        some: the indexes of the keys to read.
        noted: returns the keys changed since the cut. If they are unknown, it returns None or another mapping than at
            the cut.

    Attributes:
        is_read: whether all keys were read. If not, the next cut must write the whole state.
    """

    def __init__(
        self,
        state: dict[Any, Any],
        order: list[Any],
        some: range,
        before: Mapping[Any, Any],
        noted: Callable[[], Mapping[Any, Any] | None],
    ) -> None:
        self.left: list[Any] = []
        self.is_read = some.start >= len(order)
        self._noted = noted
        self._pairs = self._read(state, order, some, before, noted())

    def __iter__(self) -> Iterator[Pairs]:
        return self._pairs

    def _read(
        self,
        state: dict[Any, Any],
        order: list[Any],
        some: range,
        before: Mapping[Any, Any],
        since: Mapping[Any, Any] | None,
    ) -> Iterator[Pairs]:
        for first in some[::AT_ONCE]:
            keys = order[first : min(first + AT_ONCE, some.stop)]
            values: list[Any] = list(map(dict.get, repeat(state), keys, repeat(MISSING)))
            if since is None or self._noted() is not since:
                return
            if not (are_unchanging(values) and before.keys().isdisjoint(keys) and since.keys().isdisjoint(keys)):
                pairs = zip(keys, values, strict=True)
                same = [pair for pair in pairs if not (pair[0] in before or pair[0] in since or pair[1] is MISSING)]
                self.left += [key for key, value in same if not is_unchanging(value)]
                same = [pair for pair in same if is_unchanging(pair[1])]
                keys, values = [key for key, _ in same], [value for _, value in same]
            yield keys, values
        self.is_read = True


def is_unchanging(value: Any) -> bool:
    kind = type(value)
    return kind in UNCHANGING or (kind is tuple and UNCHANGING.issuperset(map(type, value)))


def are_unchanging(values: Iterable[Any]) -> bool:
    """Tell quickly whether `is_unchanging` is true for all values."""
    kinds = set(map(type, values))
    if kinds <= UNCHANGING:
        return True
    if kinds != {tuple}:
        values = compress(values, map(is_, map(type, values), repeat(tuple)))
    return kinds <= UNCHANGING | {tuple} and UNCHANGING.issuperset(map(type, chain.from_iterable(values)))
