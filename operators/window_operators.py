"""Operators that gather records by the time at which they happened."""

from typing import TypeVar

from tidewheel.operators.stream_base import StreamBase

Record = TypeVar("Record")


class WindowOperators(StreamBase[Record]):
    """What streams offer for windows on event time."""

    __slots__ = ()
