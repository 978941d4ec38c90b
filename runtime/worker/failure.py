"""The report of an operator's failure."""

import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dis import get_instructions
from reprlib import repr as shortened
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from tidewheel.progress import Location, Time
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.tokens.token_ledger import Refusal
from tidewheel.transport.frames import unpicklable

if TYPE_CHECKING:
    from tidewheel.runtime.description.plan import Plan
    from tidewheel.runtime.messages.envelope import Envelope

_OPERATORS = ("tidewheel.operators.", "tidewheel.runtime.description.pacts", "tidewheel.differential.reductions")
"""Modules that call users' functions with one record at a time."""

_BATCHES = ("batch", "rows")
"""The variables in these modules that contain the records of a batch."""


class PartError(Exception):
    """A part of an operator's work in a step failed. The cause is the original error.

    ``args``: the operator's name, the time (None for the time of the step), and in words the part that failed.
    """


def operator_failure(operator: str, worker: int, time: Time | None, error: BaseException | None, what: str) -> JobError:
    at = "" if time is None else f" at time {time!r}"
    return JobError(
        f"operator {operator!r} {what} on worker {worker}{at}: {_text(error)}{_record_of(error)}",
        operator=operator,
        worker=worker,
        time=time,
        traceback_text="".join(traceback.format_exception(error)),
    )


def raise_step_failure(
    operator: str, worker: int, time: Time | None, error: BaseException, refusals: Iterable[Refusal] = ()
) -> NoReturn:
    """Raise `operator_failure` for a scheduled operator whose function has raised.

    The error may be one of ``refusals``, which a future has raised again.
    """
    for refusal in refusals:
        if refusal.error is error:
            raise_refusal(worker, refusal)
    cause: BaseException | None = error
    what = "failed"
    if isinstance(error, PartError):
        operator, own_time, what = error.args
        cause, time = error.__cause__, time if own_time is None else own_time
    raise operator_failure(operator, worker, time, cause, what) from cause


def raise_refusal(worker: int, refusal: Refusal) -> NoReturn:
    """Raise `operator_failure` for a wrong use of tokens outside of the worker's step."""
    error, what = refusal.error, "failed in a thread or coroutine"
    raise operator_failure(refusal.operator, worker, refusal.time, error, what) from error


def unsendable(
    worker: int, plan: "Plan", locate: Callable[[int], Location], envelope: "Envelope", error: Exception
) -> JobError:
    for message in envelope.messages:
        reason = unpicklable(message)
        if reason is not None:
            at = locate(message.target)
            return JobError(
                f"worker {worker}: a record on its way to {plan.describe(at)} at time {message.time!r} cannot be "
                f"pickled, so it cannot go to another worker: {reason}",
                operator=plan.name_at(at),
                worker=worker,
                time=message.time,
            )
    return JobError(f"worker {worker} cannot send an envelope: {error}", worker=worker)


def _record_of(error: BaseException | None) -> str:
    """Describe the record at which a function failed; empty if unknown.

    The record is the variable ``record`` of the function's caller: operators use that name when they call a user's
    function, which costs nothing unless an error occurs. Folds have no such variable, and comprehensions have none from
    Python 3.12 on (PEP 709); there the record is the second of two arguments.
    """
    shown = ""
    walked = None if error is None else error.__traceback__
    while walked is not None:
        frame, walked = walked.tb_frame, walked.tb_next
        if not str(frame.f_globals.get("__name__")).startswith(_OPERATORS):
            continue
        with suppress(Exception):  # the repr or the comparison of a user's class may raise
            if "record" in frame.f_locals:
                shown = shortened(frame.f_locals["record"])
            elif walked is not None:
                shown = next(map(shortened, _given(frame, walked.tb_frame)), shown)
    is_shown = re.search(rf"(?<!\w){re.escape(shown)}(?!\w)", _text(error))  # NoneType does not show a record None
    return f" (record {shown})" if shown and not is_shown else ""


def _given(operator: FrameType, function: FrameType) -> Iterator[Any]:
    code = function.f_code
    argument = code.co_varnames[code.co_argcount - 1] if 1 <= code.co_argcount <= 2 else ""
    if argument not in function.f_locals:
        return
    assigned = any(step.argval == argument for step in get_instructions(code) if step.opname.startswith("STORE"))
    for name in _BATCHES if not assigned else ():
        batch = operator.f_locals.get(name)
        if isinstance(batch, list) and any(record is function.f_locals[argument] for record in batch):
            yield function.f_locals[argument]


def _text(error: BaseException | None) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a user's exception may fail to describe itself
        return type(error).__name__
