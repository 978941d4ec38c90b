"""A record that an operator has set aside, with its error."""

from traceback import format_exception
from typing import Generic, NamedTuple, TypeVar

Record = TypeVar("Record")

_LONGEST = 4_000


class FailedRecord(NamedTuple, Generic[Record]):
    """A record at which a function raised, or that is not of the type of its input.

    Attributes:
        record: the record, unchanged; the whole batch where a function of a batch raised. In dead letters one that
            cannot be pickled is its repr.
        error: the name of the exception's class, such as ``"ValueError"``.
        message: the exception's message, of at most 4,000 characters.
        where: the name of the operator or the source, and of a source the place in its partition.
        traceback: the last 4,000 characters of the traceback, from the function that was called on.
    """

    record: Record
    error: str
    message: str
    where: str = ""
    traceback: str = ""


def failed_record(record: Record, error: BaseException, where: str) -> FailedRecord[Record]:
    """Return a record with the error that a function of it has just raised to the caller."""
    inner = error.__traceback__
    text = "".join(format_exception(type(error), error, inner and inner.tb_next))
    return FailedRecord(record, type(error).__name__, str(error)[:_LONGEST], where, text[-_LONGEST:])
