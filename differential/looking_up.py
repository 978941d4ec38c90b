"""Look-ups by a program: the values of keys in an arrangement at a time."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tidewheel.differential.records import values_of
from tidewheel.differential.shared_arrangement import SharedArrangement
from tidewheel.differential.spine import at_or_before
from tidewheel.differential.updates import summed, unique

Found: TypeAlias = list[tuple[Any, int]]
"""The values of one key, each with its count, which is not 0."""


def look_up(arrangement: SharedArrangement, reader: str, keys: Sequence[Any], time: int) -> list[Found]:
    """Return the values of each key in an arrangement of pairs, at a time at or after the arrangement's ``since``.

    Only updates that the reader has received count.
    """
    codes = arrangement.keys.find(keys)
    sought = unique(np.array([code for code in codes if code is not None], np.int64))
    found = arrangement.look_up(reader, sought)
    found = found.take(at_or_before(found.times, (time,)))
    places, values, counts = summed([found.keys, found.values], found.diffs)
    by_code: dict[int | None, Found] = {}
    decoded = values_of(arrangement.values_of(values))
    for code, value, count in zip(sought[places].tolist(), decoded, counts.tolist(), strict=True):
        by_code.setdefault(code, []).append((value, count))
    return [by_code.get(code, []) for code in codes]
