"""The ``with`` block of a job, and the wait for its end.

The end of the block waits until the job is complete. It raises if the program would have to do something first, and it
raises the error that ended the job. So a block that ends without an exception has lost no work.
"""

import logging
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, Self

from tidewheel.host.log_lines import about
from tidewheel.progress import TidewheelError
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.engines.shown_progress import ShownProgress
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.explaining.explainer import PAUSED
from tidewheel.runtime.explaining.standing import Standing
from tidewheel.runtime.inputs.feed import Feed
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport

_LOGGER = logging.getLogger(__name__)
_PROGRESS_S = 60.0
_WARNS_AFTER_S = 1.0
"""The seconds that `Job.wait` waits before it warns of open inputs. A job that fails in them only says that."""
_BLOCK_WARNS_AFTER_S = 10.0
"""The seconds that the end of a block waits before it warns that it may wait for ever."""


class JobBlock(ABC):
    """A job as its ``with`` block sees it: what feeds it, whether it has ended, and the dataflows added to it."""

    engine: Literal["local", "ray"]
    _feed: Feed

    @abstractmethod
    def _wait_for(
        self, condition: Callable[[], bool], what: str, timeout: float | None, probe: str | None = None
    ) -> None:
        """Run or wait until ``condition()``; raise TimeoutError, or JobError where it cannot come true any more.

        ``probe`` is what errors explain, if it is a probe that is waited for.
        """

    @abstractmethod
    def _reports(self) -> Sequence[WorkerReport | BusyWorker]:
        """Return the report of each worker."""

    @abstractmethod
    def _standing(self, before: Standing | None) -> Standing:
        """Return how far the job has come; ``before`` is how far it had come the last time."""

    @abstractmethod
    def _look(self, within_s: float) -> tuple[str, Sequence[WorkerReport | BusyWorker]]:
        """Return the state and the reports of workers, within about ``within_s`` seconds; from any thread.

        A worker that is left out has nothing new to say.
        """

    def _here(self) -> Mapping[str, object]:
        """Return job, operator and worker that run on this thread, for lines of the log; empty if none does."""
        return {}

    @abstractmethod
    def _check_missed(self) -> None:
        """Raise Rewound if the job has gone back to a snapshot, and the program has to send something again."""

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether every frontier is empty: nothing can ever happen again."""

    @abstractmethod
    def _end(self, *, on_purpose: bool) -> None:
        """End the job now, as the user asks for it, or because its ``with`` block has ended. Idempotent."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.name = f"{plan.name}-{uuid.uuid4().hex[:8]}"
        graph = plan.graph()
        self.probe_nestings = {name: graph.nesting(source) for name, source in plan.probes.items()}
        self.outermost_probes = {name: at.domain for name, at in self.probe_nestings.items() if not at.depth}
        self._added: dict[str, Self] = {}
        self._error: TidewheelError | None = None
        self._stopped = self._started = self._is_interrupted = False
        self._has_waited = False
        """Whether the program has waited for some of the work, or has looked at a probe."""
        self._since_s = self._next_progress_s = time.monotonic()
        self._told_progress = ""
        self._shown = ShownProgress(self.name, self._standing, runs_elsewhere=self.engine == "ray")
        self._host = self.name
        self._goes_back, self._returns = False, 0

    @property
    def _has_ended(self) -> bool:
        return self._stopped or self._error is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._end(on_purpose=False)
        if kind is None:
            self._raise_failure()

    @property
    def _state(self) -> str:
        if self._error is not None:
            return "failed"
        if self._goes_back and not self._stopped:
            return "going back"
        if self.is_complete:
            return "complete"
        return "stopped" if self._stopped else "running" if self._started else "paused"

    def _progress(self) -> str:
        """Say how far the probes have come, and which inputs are open."""
        if not hasattr(self, "_feed"):
            return "being deployed"
        frontiers = {name: self._feed.frontier(name, at) for name, at in self.outermost_probes.items()}
        reached = [f"probe {name!r} at {', '.join(map(repr, at)) or 'its end'}" for name, at in frontiers.items()]
        return "; ".join((*reached, self._feed.describe()))

    def _tell_progress(self) -> None:
        """Log how far the job has come, if it has moved: often in its first minute, later once a minute."""
        if self._started and _LOGGER.isEnabledFor(logging.INFO) and time.monotonic() >= self._next_progress_s:
            told, self._told_progress = self._told_progress, self._progress()
            self._next_progress_s = time.monotonic() + min(_PROGRESS_S, 1.0 + (time.monotonic() - self._since_s) / 4)
            if self._told_progress != told:
                _LOGGER.info("job %r: %s", self.name, self._told_progress, extra=about(self.name))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self._state}; {self._progress()}>"

    # ------------------------------------------------------------------ waiting

    def wait(self, timeout: float | None = None, *, progress: bool | None = None) -> None:
        """Wait until every frontier is empty: all sources have ended, all inputs are closed, all work is done.

        It waits for the dataflows that were added, too.

        Args:
            timeout: in seconds; None waits as long as it takes.
            progress: whether to show on standard error, each second, the epoch, records, their rate, and what the job
                waits for. None shows that from the fifth second on, in a terminal or notebook.

        Raises:
            JobError: an operator raised (the error names it, its worker and the time), a worker died, or the job was
                stopped.
            TimeoutError: it did not end within ``timeout`` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        warning = threading.Timer(_WARNS_AFTER_S, self._warn_of_open_inputs)
        if self._feed.left_open:
            warning.start()
        try:
            self._wait_for_end(timeout, progress)
        finally:
            warning.cancel()
        for job in list(self._added.values()):
            job.wait(None if deadline is None else max(0.0, deadline - time.monotonic()), progress=progress)

    def _wait_for_end(self, timeout: float | None, progress: bool | None) -> None:
        """Wait until this dataflow is complete, those that were added apart."""
        self._has_waited = True
        with self._shown.shown(progress):
            self._wait_for(lambda: self.is_complete, f"job {self.name!r} to end", timeout)

    def _warn_of_open_inputs(self) -> None:
        if self._feed.left_open and not self._has_ended:
            said = "job %r waits for its end, but inputs are open: close() %s"
            _LOGGER.warning(said, self.name, self._feed.to_close, extra=about(self.name))

    def _finish(self) -> None:
        """Wait until the job, and all that was added to it, is complete.

        Raises:
            JobError: it was never started, or an input is open or a source has no end, so that it cannot complete.
        """
        if self._has_ended:
            return
        unfinished = [job for job in self._family() if not (job._has_ended or job.is_complete)]
        for job in unfinished:
            job._check_can_complete()
        for job in unfinished:
            warning = threading.Timer(_BLOCK_WARNS_AFTER_S, job._warn_of_long_wait)
            warning.start()
            try:
                job._wait_for_end(None, None)
            finally:
                warning.cancel()

    def _family(self) -> "Iterator[Self]":
        """Yield this dataflow, and all that were added to it or to those."""
        yield self
        for added in list(self._added.values()):
            yield from added._family()

    def _check_can_complete(self) -> None:
        """Raise JobError if only this program can bring about the end of the job, and Rewound as `wait` does."""
        self._check_missed()
        endless = " and ".join(map(repr, self.plan.endless))
        if not self._started:
            missing, remedy = PAUSED, ""
        elif self._feed.left_open:
            inputs = f"input{'s' * (len(self._feed.left_open) > 1)} {self._feed.to_close}"
            missing, remedy = f"inputs are open: {inputs}", ". close() each after its last batch"
        elif endless:
            missing, remedy = f"source {endless} has no end", ""
        else:
            return
        raise JobError(
            f"job {self.name!r} cannot complete, and its with block has ended, so the rest of its work is lost: "
            f"{missing}{remedy}. To end the job early, call job.stop() in the block"
        )

    def _warn_of_long_wait(self) -> None:
        """Warn that the end of the block waits for sources or for other processes, which may have no end."""
        fed = [f"handles of input {name!r} elsewhere" for name, one in self._feed.inputs.items() if one.handed_over]
        reports = self._look(_WARNS_AFTER_S)[1] if fed else ()
        if not any(isinstance(report, WorkerReport) and report.feeders for report in reports):
            fed = []
        inputs = self.plan.inputs.values()
        others = (
            one.name for number, one in enumerate(self.plan.operators) if not one.sources and number not in inputs
        )
        waits = [f"source {name!r}" for name in others] + fed
        if waits and not self._has_ended:
            _LOGGER.warning(
                "job %r: its with block has ended, and waits until the job is complete. If %s will not end, call "
                "job.stop() in the block",
                self.name,
                " or ".join(waits),
                extra=about(self.name),
            )

    def _raise_failure(self) -> None:
        """Raise what ended a dataflow or one that was added to it, but no interrupt: the program has got that."""
        if self._error is not None and not self._is_interrupted:
            raise self._error
        for added in self._added.values():
            added._raise_failure()
