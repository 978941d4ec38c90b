"""Operators that change times or look at them."""

from typing import TypeVar

from tidewheel.operators.stream_base import StreamBase

Record = TypeVar("Record")


class TimeOperators(StreamBase[Record]):
    """What streams offer for times."""

    __slots__ = ()
