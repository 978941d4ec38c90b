"""The try_map operator: what a function makes of records, and apart from it the records at which it failed."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from tidewheel.runtime import Build, InputPort, OutputPort
from tidewheel.transport.batches import records

Record = TypeVar("Record")

Caught: TypeAlias = type[Exception] | tuple[type[Exception], ...]
"""Which exceptions make a record a failed one."""


class Failed(NamedTuple, Generic[Record]):
    """A record at which a function raised.

    Attributes:
        record: as the function got it.
        error: the name of the exception's class, such as ``"ValueError"``.
        message: what the exception says.
    """

    record: Record
    error: str
    message: str


def build_try_map(function: Callable[[Any], Any], caught: Caught) -> Build:
    """Return the build function of an operator that sends results on its first output and `Failed` on its second."""

    def schedule(input: InputPort, results: OutputPort, failures: OutputPort) -> None:
        for lent, batch in input:
            made, failed = _try_each(function, caught, records(batch))
            results.send(lent, made)
            failures.send(lent, failed)

    return lambda context: schedule


def _try_each(function: Callable[[Any], Any], caught: Caught, rows: list[Any]) -> tuple[list[Any], list[Failed[Any]]]:
    made, failed = [], []
    for record in rows:
        try:
            made.append(function(record))
        except caught as error:
            failed.append(Failed(record, type(error).__name__, str(error)))
    return made, failed
