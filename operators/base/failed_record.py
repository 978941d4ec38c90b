"""A record that an operator has diverted, with its error."""

from typing import Generic, NamedTuple, TypeVar

Record = TypeVar("Record")


class FailedRecord(NamedTuple, Generic[Record]):
    """A record for which a function has raised, or that does not have the type of its input.

    Attributes:
        record: the record, unchanged.
        error: the name of the exception's class, such as ``"ValueError"``.
        message: the exception's message.
    """

    record: Record
    error: str
    message: str
