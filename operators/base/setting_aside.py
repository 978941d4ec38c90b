"""Operators that set aside the records for which a function raises, instead of failing the job.

A set-aside record with its error is a *letter*. A stateless operator has an output for letters. Any other operator
sends letters as `Aside` records among its results, at the time of the record, and the next operator separates them. So
letters leave in the same step as the results, and a snapshot has both or neither.
"""

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TypeAlias

from tidewheel.batches.batches import Batch, is_arrow, is_numpy, keep, records
from tidewheel.host.safe_text import safe_text
from tidewheel.operators.base.failed_record import FailedRecord, failed_record
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort, OutputPort
from tidewheel.transport.frames import unpicklable

Caught: TypeAlias = tuple[type[Exception], ...]
"""The exceptions after which a record is set aside; empty if all errors fail the job."""

Refuse: TypeAlias = Callable[[Any, Exception], None]
"""Sets a record aside, with its error; raises the error if it is not among the exceptions to catch."""

Divide: TypeAlias = Callable[[Batch, Refuse], Batch]
"""Returns the result of a batch, and sets aside the records that fail."""


class _Nothing:
    """Stands for the result of a refused record. It is a class, since a class is the same object in every process."""


class Aside:
    """A letter among the results of an operator; `build_dividing` separates it from them."""

    __slots__ = ("letter",)

    def __init__(self, letter: FailedRecord[Any]) -> None:
        self.letter = letter


def letter(
    record: Any, error: BaseException, where: str = "", *, traceback: TracebackType | None = None
) -> FailedRecord[Any]:
    """Return the letter for a failed record, such that it can be pickled.

    `build_dividing` puts the operator's name before ``where``. The default of ``traceback`` is the error's.
    """
    is_plain = is_arrow(record) or (is_numpy(record) and not record.dtype.hasobject)
    if not is_plain and unpicklable(record) is not None:
        record = safe_text(record)[:4000]
    return failed_record(record, error, where, traceback)


def results_of(function: Callable[[Any], Any]) -> Divide:
    """Return a function that divides a batch into the function's results and the records for which it raises."""
    return lambda batch, refuse: [one for one in _tried(function, batch, refuse) if one is not _Nothing]


def all_results_of(function: Callable[[Any], Iterable[Any]]) -> Divide:
    """As `results_of`, for a function that returns several results for a record."""

    def divide(batch: Batch, refuse: Refuse) -> Batch:
        tried = _tried(lambda record: list(function(record)), batch, refuse)
        return [result for made in tried if made is not _Nothing for result in made]

    return divide


def those_for_which(predicate: Callable[[Any], object]) -> Divide:
    """Return a function that keeps the records that satisfy a predicate, and refuses records for which it raises."""

    def divide(batch: Batch, refuse: Refuse) -> Batch:
        kept = [one is True for one in _tried(lambda record: bool(predicate(record)), batch, refuse)]
        return batch if all(kept) else keep(batch, kept)

    return divide


def whole_batches(function: Callable[[Any], Batch]) -> Divide:
    """Return a function that sets a whole batch aside if ``function(batch)`` raises."""

    def divide(batch: Batch, refuse: Refuse) -> Batch:
        try:
            return function(batch)
        except Exception as error:  # noqa: BLE001 - the letter has it
            refuse(batch, error)
            error.__traceback__ = None
            return []

    return divide


def _tried(function: Callable[[Any], Any], batch: Batch, refuse: Refuse) -> list[Any]:
    made = []
    for record in records(batch):
        try:
            result = function(record)
        except Exception as error:  # noqa: BLE001 - the letter has it
            refuse(record, error)
            error.__traceback__ = None  # it grows each time that a function raises the same object
            result = _Nothing
        made.append(result)
    return made


def build_setting_aside(divide: Divide, caught: Caught, part: str = "") -> Build:
    """Build an operator with two outputs, for results and for letters.

    Letters show the operator's name without the suffix ``part``.
    """

    def build(context: OperatorContext) -> Schedule:
        def schedule(input: InputPort, output: OutputPort, letters: OutputPort) -> None:
            failed: list[FailedRecord[Any]] = []

            def refuse(record: Any, error: Exception) -> None:
                if not isinstance(error, caught):
                    raise error
                failed.append(letter(record, error, context.name.removesuffix(part)))

            for lent, batch in input:
                output.send(lent, divide(batch, refuse))
                letters.send(lent, failed[:])
                failed.clear()

        return schedule

    return build


def build_dividing(where: str) -> Build:
    """Build an operator that separates letters from the results of the preceding operator, which is named ``where``."""

    def schedule(input: InputPort, output: OutputPort, letters: OutputPort) -> None:
        for lent, batch in input:
            if type(batch) is not list or not any(type(one) is Aside for one in batch):
                output.send(lent, batch)
                continue
            failed = [one.letter for one in batch if type(one) is Aside]
            output.send(lent, [one for one in batch if type(one) is not Aside])
            letters.send(lent, [one._replace(where=f"{where}{one.where}") for one in failed])

    return lambda context: schedule
