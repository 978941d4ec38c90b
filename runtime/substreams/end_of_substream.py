"""The mark by which an operator promises that a substream has ended."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EndOfSubstream:
    """A mark among records on their way to where they are divided: those before it were the last with this key."""

    key: Any


def is_mark(record: object) -> bool:
    """Tell whether a record is a mark."""
    return type(record) is EndOfSubstream
