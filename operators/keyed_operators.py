"""Operators that keep something for each key, from one epoch to the next."""

from typing import TypeVar

from tidewheel.operators.stream_base import StreamBase

Record = TypeVar("Record")


class KeyedOperators(StreamBase[Record]):
    """What streams offer for state by key."""

    __slots__ = ()
