"""A growing set of keys: an array of few keys, or a bit mask over the range of many keys."""

from collections.abc import Iterator

import numpy as np

from tidewheel.differential.records import Integers
from tidewheel.differential.updates import MOST_KEYS, unique

_MOST_PLACES = 8
"""With up to this many places for each key, a mask takes less memory than keys of 8 bytes."""


class KeySet:
    """Distinct keys.

    >>> keys = KeySet()
    >>> keys.add(np.array([2, 5]))
    >>> keys.add(np.array([2, 3]))
    >>> [part.tolist() for part in keys.parts()]
    [[2, 3, 5]]
    """

    def __init__(self) -> None:
        self._parts: list[Integers] = []
        self._least = 0
        self._mask = np.zeros(0, bool)

    def add(self, keys: Integers) -> None:
        if self._least <= keys[0] and keys[-1] < self._least + len(self._mask):
            self._mask[keys - self._least] = True
            return
        self._parts.append(keys)
        if sum(map(len, self._parts)) > max(MOST_KEYS, 2 * len(self._parts[0])):
            self._gather()

    def parts(self) -> Iterator[Integers]:
        """Yield all keys in order, about `MOST_KEYS` at a time; do not change the set meanwhile."""
        if len(self._mask) and self._parts:
            self._gather()
        if self._parts:
            keys = unique(*self._parts)
            for first in range(0, len(keys), MOST_KEYS):
                yield keys[first : first + MOST_KEYS]
        else:
            yield from self._masked()

    def _masked(self) -> Iterator[Integers]:
        step = MOST_KEYS * len(self._mask) // (int(np.count_nonzero(self._mask)) or 1) + 1
        for first in range(0, len(self._mask), step):
            keys = self._mask[first : first + step].nonzero()[0]
            if len(keys):
                yield keys + (self._least + first)

    def _gather(self) -> None:
        mask, before = self._mask, self._least
        ends = [int(keys[place]) for keys in self._parts for place in (0, -1)]
        ends += [before, before + len(mask) - 1] if len(mask) else []
        least, most = min(ends), max(ends)
        if most - least < _MOST_PLACES * (sum(map(len, self._parts)) + np.count_nonzero(mask)):
            self._least, self._mask = least, np.zeros(most - least + 1, bool)
            self._mask[before - least :][: len(mask)] = mask
            for keys in self._parts:
                self._mask[keys - least] = True
            self._parts = []
        else:
            self._parts = [unique(*self._parts, *self._masked())]
            self._mask = mask[:0]
