"""Operators that run on the kernels of Arrow."""

from typing import TypeVar

from tidewheel.operators.stream_base import StreamBase

Record = TypeVar("Record")


class ColumnOperators(StreamBase[Record]):
    """What streams offer for Arrow tables."""

    __slots__ = ()
