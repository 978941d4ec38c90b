"""The states of a job: paused, running, returning to a snapshot; complete, stopped or failed."""

import threading
from collections.abc import Callable

from tidewheel.progress import TidewheelError
from tidewheel.runtime.errors import JobError


class JobLife:
    """The state of a job; thread-safe.

    Attributes:
        changed: notified when the state changes, and when workers report.
        is_stopped: whether the program has stopped the job or left its ``with`` block.
        is_interrupted: whether an interrupt, such as Ctrl-C, has ended the job; it also ends the program.
    """

    def __init__(self, job: str) -> None:
        self._job = job
        self.changed = threading.Condition()
        self.error: TidewheelError | None = None
        self.is_stopped = False
        self.has_started = False
        self.is_interrupted = False
        self.goes_back = False
        self.returns = 0

    @property
    def has_ended(self) -> bool:
        return self.is_stopped or self.error is not None

    def check_alive(self) -> None:
        """Raise JobError if the job has failed or was stopped."""
        if self.error is not None:
            raise self.error
        if self.is_stopped:
            raise JobError(f"job {self._job!r} was stopped: use it inside its with block")

    def fail(self, error: TidewheelError) -> bool:
        """Record why the job has failed; return False if the job had already ended."""
        with self.changed:
            if self.has_ended:
                return False
            self.error = error
            self.changed.notify_all()
            return True

    def have_gone_back(self) -> None:
        with self.changed:
            self.goes_back = False
            self.returns += 1
            self.changed.notify_all()

    def describe(self, is_complete: Callable[[], bool]) -> str:
        if self.error is not None:
            return "failed"
        if self.goes_back and not self.is_stopped:
            return "going back"
        if is_complete():
            return "complete"
        return "stopped" if self.is_stopped else "running" if self.has_started else "paused"
