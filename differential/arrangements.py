"""The arrangements of one operator: spines by the same keys, with the codes of keys and values.

They can be divided among another number of workers. What each has is decoded, goes to the worker that owns its key, and
is encoded there again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np

from tidewheel.differential.codes import Codes, Translate
from tidewheel.differential.records import Column, Integers
from tidewheel.differential.spine import Spine
from tidewheel.differential.updates import Updates, concatenate

Owners: TypeAlias = Callable[[Sequence[Column], int], "np.typing.NDArray[Any]"]
"""Returns, of the columns of some keys, the worker that owns each, of so many."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Updates of one spine, decoded.

    Attributes:
        spine: the number of the spine.
        keys: the columns of the keys, one, or two for pairs.
        values: the column of the values.
        times, diffs: as `Updates` has them.
    """

    spine: Any
    keys: Sequence[Column]
    values: Column
    times: tuple[Integers, ...]
    diffs: Integers


class Arrangements:
    """Spines by the same keys.

    Args:
        depth: the number of coordinates of times.
        operator: the name of the operator, for errors.
        codes: the codes of the values of each spine, which two may share.
    """

    def __init__(self, depth: int, operator: str, codes: Sequence[Codes]) -> None:
        self.spines: dict[Any, Spine] = {number: Spine(depth) for number in range(len(codes))}
        self.operator = operator
        self._depth = depth
        self._keys = Codes()
        self._codes: dict[Any, Codes] = dict(enumerate(codes))

    def encode_keys(self, columns: Sequence[Column]) -> Integers:
        """Return the codes of keys, in one column or as pairs in two."""
        return self._keys.encode(columns, self._translate_keys)

    def encode_values(self, spine: Any, column: Column) -> Integers:
        """Return the codes of values of one spine."""
        codes = self._codes[spine]

        def translate(change: Translate) -> None:
            for number, one in self.spines.items():
                if self._codes[number] is codes:
                    one.translate(values=change)

        return codes.encode([column], translate)

    def sweep(self) -> None:
        """Forget interned values that are no longer in use, where these may be many."""
        if self._keys.wants_sweep:
            self._keys.sweep(np.concatenate(self._key_codes()))
        for codes in self._codes.values():
            if codes.wants_sweep:
                used = [spine for number, spine in self.spines.items() if self._codes[number] is codes]
                codes.sweep(np.concatenate([spine.column("values") for spine in used]))

    def divided(self, owners: Owners, workers: int, make: Callable[[], Self]) -> list[Self]:
        """Return what each of so many workers gets, in arrangements that ``make`` makes."""
        shares = [make() for _ in range(workers)]
        for piece in self._pieces():
            owner = owners(piece.keys, workers)
            for worker in np.unique(owner).tolist():
                shares[worker]._load(_rows_of(piece, owner == worker))
        return shares

    def add(self, other: Self) -> Self:
        """Add what another has; return this one."""
        for piece in other._pieces():
            self._load(piece)
        return self

    def _key_codes(self) -> list[Integers]:
        return [spine.column("keys") for spine in self.spines.values()]

    def _translate_keys(self, change: Translate) -> None:
        for spine in self.spines.values():
            spine.translate(keys=change)

    def _pieces(self) -> Iterator[Piece]:
        for number, spine in self.spines.items():
            if spine.batches:
                found = concatenate([batch.updates for batch in spine.batches], self._depth)
                keys, values = self._keys.decode(found.keys), self._codes[number].decode(found.values)[0]
                yield Piece(number, keys, values, found.times, found.diffs)

    def _spine(self, number: Any) -> Spine:
        return self.spines[number]

    def _load(self, piece: Piece) -> None:
        spine, keys = self._spine(piece.spine), self.encode_keys(piece.keys)
        values = self.encode_values(piece.spine, piece.values)
        spine.insert(Updates(keys, values, piece.times, piece.diffs))


def _rows_of(piece: Piece, rows: Any) -> Piece:
    return Piece(
        piece.spine,
        [column[rows] for column in piece.keys],
        piece.values[rows],
        tuple(column[rows] for column in piece.times),
        piece.diffs[rows],
    )
