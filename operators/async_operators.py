"""Operators that wait for something outside without holding others up."""

from typing import TypeVar

from tidewheel.operators.stream_base import StreamBase

Record = TypeVar("Record")


class AsyncOperators(StreamBase[Record]):
    """What streams offer for coroutines."""

    __slots__ = ()
