"""Operators that bring the records of several streams together by key."""

from typing import TypeVar

from tidewheel.operators.stream_base import StreamBase

Record = TypeVar("Record")


class JoinOperators(StreamBase[Record]):
    """What streams offer for joins."""

    __slots__ = ()
