"""A record that an operator has set aside, with its error."""

from traceback import format_exception
from typing import Generic, NamedTuple, TypeVar

Record = TypeVar("Record")

_LONGEST = 4_000


class FailedRecord(NamedTuple, Generic[Record]):
    """A record for which a function has raised, or that does not have the type of its input.

    Attributes:
        record: the record, unchanged, or the whole batch if a function of a batch raised. In dead letters, a record
            that cannot be pickled is replaced by its repr.
        error: the name of the exception's class, such as ``"ValueError"``.
        message: the exception's message, of at most 4,000 characters.
        where: the name of the operator or source; for a source also the place in its partition.
        traceback: the last 4,000 characters of the traceback, which begins at the function that was called.
    """

    record: Record
    error: str
    message: str
    where: str = ""
    traceback: str = ""


def failed_record(record: Record, error: BaseException, where: str) -> FailedRecord[Record]:
    """Return a failed record for a record and the error that the caller has just caught."""
    inner = error.__traceback__
    text = "".join(format_exception(type(error), error, inner and inner.tb_next))
    return FailedRecord(record, type(error).__name__, str(error)[:_LONGEST], where, text[-_LONGEST:])
