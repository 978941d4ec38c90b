"""Waits for the end of a job, also at the end of its ``with`` block.

The end of the block waits until the job is complete. It raises if the program would have to act first, or if an error
has ended the job. So if a block ends without exception, no work is lost.
"""

import logging
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidewheel.host.log_lines import about
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.explaining.explainer import PAUSED
from tidewheel.runtime.messages.worker_report import WorkerReport

if TYPE_CHECKING:
    from tidewheel.runtime.engines.job import Job

_LOGGER = logging.getLogger(__name__)
_WARNS_AFTER_S = 1.0
"""`Job.wait` warns of open inputs after this many seconds, so that a job that fails early does not warn."""
_BLOCK_WARNS_AFTER_S = 10.0
"""The end of a block warns after this many seconds that it may wait for ever."""


def wait(job: "Job", timeout_s: float | None, progress: bool | None) -> None:
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    warning = threading.Timer(_WARNS_AFTER_S, warn_of_open_inputs, [job])
    if job._feed.inputs.left_open:
        warning.start()
    try:
        _wait_for_end(job, timeout_s, progress)
    finally:
        warning.cancel()
    for added in job._added:
        added.wait(None if deadline is None else max(0.0, deadline - time.monotonic()), progress=progress)


def _wait_for_end(job: "Job", timeout_s: float | None, progress: bool | None) -> None:
    job._captures.note_wait()
    with job._shown.shown(progress):
        job._wait_for(lambda: job.is_complete, f"job {job.name!r} to end", timeout_s)


def warn_of_open_inputs(job: "Job") -> None:
    if job._feed.inputs.left_open and not job._life.has_ended:
        said = "job %r waits for its end, but inputs are open: close() %s"
        _LOGGER.warning(said, job.name, job._feed.inputs.to_close, extra=about(job.name))


def finish(job: "Job") -> None:
    """Wait until a job and its added dataflows are complete.

    Raises:
        JobError: the job cannot complete: it was never started, an input is open, or a source has no end.
    """
    if job._life.has_ended:
        return
    unfinished = [one for one in _family(job) if not (one._life.has_ended or one.is_complete)]
    for one in unfinished:
        _check_can_complete(one)
    for one in unfinished:
        warning = threading.Timer(_BLOCK_WARNS_AFTER_S, _warn_of_long_wait, [one])
        warning.start()
        try:
            _wait_for_end(one, None, None)
        finally:
            warning.cancel()


def _family(job: "Job") -> "Iterator[Job]":
    yield job
    for added in job._added:
        yield from _family(added)


def _check_can_complete(job: "Job") -> None:
    """Raise JobError if only this program could complete the job; raise JobRolledBack as `Job.wait` does."""
    job._feed.wait_until_usable()
    job._handles.tell_of(job._handles.missed(job._feed))
    endless = " and ".join(map(repr, job.plan.endless))
    if not job._life.has_started:
        missing, remedy = PAUSED, ""
    elif job._feed.inputs.left_open:
        inputs = f"input{'s' * (len(job._feed.inputs.left_open) > 1)} {job._feed.inputs.to_close}"
        missing, remedy = f"inputs are open: {inputs}", ". close() each after its last batch"
    elif endless:
        missing, remedy = f"source {endless} has no end", ""
    else:
        return
    raise JobError(
        f"job {job.name!r} cannot complete, and its with block has ended, so the rest of its work is lost: "
        f"{missing}{remedy}. To end the job early, call job.stop() in the block"
    )


def _warn_of_long_wait(job: "Job") -> None:
    """Warn that the end of the block waits for sources or other processes, perhaps for ever."""
    fed = [f"handles of input {name!r} elsewhere" for name, one in job._feed.inputs.items() if one.handed_over]
    reports = job._look(_WARNS_AFTER_S)[1] if fed else ()
    if not any(isinstance(report, WorkerReport) and report.feeders for report in reports):
        fed = []
    inputs = job.plan.inputs.values()
    others = (one.name for number, one in enumerate(job.plan.operators) if not one.sources and number not in inputs)
    waits = [f"source {name!r}" for name in others] + fed
    if waits and not job._life.has_ended:
        _LOGGER.warning(
            "job %r: its with block has ended, and waits until the job is complete. If %s will not end, call "
            "job.stop() in the block",
            job.name,
            " or ".join(waits),
            extra=about(job.name),
        )


def raise_failure(job: "Job") -> None:
    """Raise the error that has ended a dataflow, or one added to it, unless that is an interrupt."""
    if job._life.error is not None and not job._life.is_interrupted:
        raise job._life.error
    for added in job._added:
        raise_failure(added)
