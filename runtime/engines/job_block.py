"""The ``with`` block of a job: its end waits for work that is under way, and raises the error that ended the job."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from tidewheel.progress import TidewheelError
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.explaining.explainer import PAUSED
from tidewheel.runtime.inputs.feed import Feed
from tidewheel.runtime.worker.worker_report import BusyWorker, WorkerReport

_LOGGER = logging.getLogger(__name__)
_FINISH_S = 10.0
_FINISH_SOURCES_S = 1.0


class JobBlock(ABC):
    """A job as its ``with`` block sees it: what feeds it, whether it has ended, and the dataflows added to it."""

    name: str
    plan: Plan
    _feed: Feed
    _error: TidewheelError | None
    _stopped: bool
    _started: bool
    _added: "Mapping[str, JobBlock]"

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

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether every frontier is empty: nothing can ever happen again."""

    @abstractmethod
    def stop(self) -> None:
        """End the job now."""

    @property
    def _has_ended(self) -> bool:
        return self._stopped or self._error is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish(time.monotonic())
        finally:
            self.stop()
        if kind is None:
            self._raise_failure()

    def _finish(self, since: float) -> None:
        """Wait for the end of a job whose inputs are closed, and of those that were added; warn if that takes long."""
        if not self._has_ended and not self.is_complete and not self._is_fed:
            limit_s = _FINISH_SOURCES_S if self._has_sources else _FINISH_S
            left_s = max(0.0, since + limit_s - time.monotonic()) if self._started else 0.0
            try:
                self._wait_for(lambda: self.is_complete, f"job {self.name!r} to end", round(left_s, 1))
            except (TidewheelError, TimeoutError) as error:
                if not self._has_ended:
                    _LOGGER.warning(
                        "job %r is cut short: its with block has ended, and the rest of its work is lost. Call "
                        "job.wait() in the block, or job.stop() if you want to stop early (%s)",
                        self.name,
                        error if self._started else PAUSED,
                    )
        for added in list(self._added.values()):
            added._finish(since)

    @property
    def _has_sources(self) -> bool:
        """Whether an operator of the dataflow reads from elsewhere than its inputs, perhaps without end."""
        inputs = self.plan.inputs.values()
        return any(not one.sources and number not in inputs for number, one in enumerate(self.plan.operators))

    @property
    def _is_fed(self) -> bool:
        """Whether an input is open, in this process or in another one."""
        if self._feed.left_open or not any(fed.handed_over for fed in self._feed.inputs.values()):
            return bool(self._feed.left_open)
        return any(report.feeders for report in self._reports() if isinstance(report, WorkerReport))

    def _raise_failure(self) -> None:
        """Raise what ended a dataflow or, if nothing did, one that was added to it."""
        if self._error is not None:
            raise self._error
        for added in self._added.values():
            added._raise_failure()
