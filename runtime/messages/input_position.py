"""The position of an input handle, as a snapshot has it."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec


class InputPosition(msgspec.Struct, frozen=True, array_like=True, repr_omit_defaults=True):
    """The counts of the batches and ends that an input handle has sent.

    Attributes:
        time: the time of its next batch.
        batches, records: how many the handle has sent in all.
        is_first: whether the handle replaces the input's first handle, which was passed to another process.
        ends: the number of calls of `InputHandle.end_substream`.
    """

    time: Any
    batches: int = 0
    records: int = 0
    is_closed: bool = False
    batches_at_time: int = 0
    is_first: bool = False
    ends: int = 0


Positions: TypeAlias = Mapping[str, Mapping[int, InputPosition]]
"""The positions of the first handle and of all open handles, by input and by number of the handle."""
