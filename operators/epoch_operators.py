"""Operators that make something of all records of an epoch."""

from typing import TypeVar

from tidewheel.operators.stream_base import StreamBase

Record = TypeVar("Record")


class EpochOperators(StreamBase[Record]):
    """What streams offer for whole epochs."""

    __slots__ = ()
