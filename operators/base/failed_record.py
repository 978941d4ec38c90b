"""A record that an operator has set aside, with its error."""

from traceback import format_exception
from typing import Generic, NamedTuple, TypeVar

from tidewheel.host.safe_text import safe_text

Record = TypeVar("Record")

_LONGEST = 4_000
_MOST_FRAMES = 40
"""So many frames at the end of a traceback have more characters than a letter keeps."""


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
    text = safe_text(error, _traceback)
    return FailedRecord(record, type(error).__name__, safe_text(error, str)[:_LONGEST], where, text[-_LONGEST:])


def _traceback(error: BaseException) -> str:
    inner = error.__traceback__
    return "".join(format_exception(type(error), error, inner and inner.tb_next, limit=-_MOST_FRAMES))
