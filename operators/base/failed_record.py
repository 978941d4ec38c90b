"""A record that was put aside, and why."""

from typing import Generic, NamedTuple, TypeVar

Record = TypeVar("Record")


class FailedRecord(NamedTuple, Generic[Record]):
    """A record at which a function raised, or that is not of the type of its input.

    Attributes:
        record: as it came.
        error: the name of the exception's class, such as ``"ValueError"``.
        message: what the exception says.
    """

    record: Record
    error: str
    message: str
