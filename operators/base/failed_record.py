"""A record that an operator has set aside, with its error."""

from traceback import format_exception
from types import TracebackType
from typing import Generic, NamedTuple, TypeVar

from tidewheel.host.safe_text import safe_text

Record = TypeVar("Record")

_LONGEST = 4_000
_MOST_FRAMES = 40
"""The frames of a traceback that are formatted, from its end: more than a letter has room for."""


class FailedRecord(NamedTuple, Generic[Record]):
    """A record for which a function has raised, or that does not have the type of its input.

    Attributes:
        record: the record, unchanged, or the whole batch if a function of a batch raised. In dead letters, a record
            that cannot be pickled is replaced by its repr.
        error: the name of the exception's class, such as ``"ValueError"``.
        message: the exception's message, of at most 4,000 characters.
        where: the name of the operator or source; for a source also the place in its partition.
        traceback: the last 4,000 characters of the traceback, from the called function on.
    """

    record: Record
    error: str
    message: str
    where: str = ""
    traceback: str = ""


def failed_record(
    record: Record, error: BaseException, where: str, traceback: TracebackType | None = None
) -> FailedRecord[Record]:
    """Return a failed record for a record and the caught error; the default of ``traceback`` is the error's."""
    outer = traceback or error.__traceback__
    text = safe_text(error, lambda failed: _formatted(failed, outer and outer.tb_next))
    return FailedRecord(record, type(error).__name__, safe_text(error, str)[:_LONGEST], where, text[-_LONGEST:])


def _formatted(error: BaseException, traceback: TracebackType | None) -> str:
    return "".join(format_exception(type(error), error, traceback, limit=-_MOST_FRAMES))
