"""The place up to which a handle of an input has sent, as a snapshot has it."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec


class InputPosition(msgspec.Struct, frozen=True, array_like=True):
    """How far a handle of an input has sent.

    Attributes:
        time: the time at which it sends next.
        batches, records: how many it has sent in all.
    """

    time: Any
    batches: int = 0
    records: int = 0


Positions: TypeAlias = Mapping[str, Mapping[int, InputPosition]]
"""The positions of the open handles of each input: by the input's name, and the handle's number."""
