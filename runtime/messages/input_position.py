"""The place up to which a handle of an input has sent, as a snapshot has it."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec


class InputPosition(msgspec.Struct, frozen=True, array_like=True, repr_omit_defaults=True):
    """How far a handle of an input has sent.

    Attributes:
        time: the time at which it sends next.
        batches, records: how many it has sent in all.
        is_closed: whether it sends nothing any more.
        batches_at_time: how many of the batches it has sent at that time.
        is_first: whether it has the place of the first handle, which was passed to another process as this one.
        ends: how many times it has called `InputHandle.end_substream`.
    """

    time: Any
    batches: int = 0
    records: int = 0
    is_closed: bool = False
    batches_at_time: int = 0
    is_first: bool = False
    ends: int = 0


Positions: TypeAlias = Mapping[str, Mapping[int, InputPosition]]
"""The positions of the open handles of each input, and of its first one: by input and by the handle's number."""
