"""The life of a job: it is paused, runs, goes back to a snapshot, and is complete, stopped or failed in the end."""

import threading
from collections.abc import Callable

from tidewheel.progress import TidewheelError
from tidewheel.runtime.errors import JobError


class JobLife:
    """Whether a job runs, and if not, why. May be used from several threads.

    Args:
        job: the name of the job.

    Attributes:
        changed: notified when any of this has changed, and when news of the workers have come.
        error: why the job has failed; None if it has not.
        is_stopped: whether it was ended before, or its ``with`` block was left.
        has_started: whether its workers may run.
        is_interrupted: whether it has failed by an interrupt, such as Ctrl-C, which the program gets besides.
        goes_back: whether it is on its way back to a snapshot.
        returns: how often it has gone back.
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
        """Whether it was stopped, or has failed."""
        return self.is_stopped or self.error is not None

    def check_alive(self) -> None:
        """Raise JobError if the job has failed or was stopped."""
        if self.error is not None:
            raise self.error
        if self.is_stopped:
            raise JobError(f"job {self._job!r} was stopped: use it inside its with block")

    def fail(self, error: TidewheelError) -> bool:
        """Note why the job has failed; return False if it had ended before."""
        with self.changed:
            if self.has_ended:
                return False
            self.error = error
            self.changed.notify_all()
            return True

    def have_gone_back(self) -> None:
        """Note that the job has gone back, and goes on."""
        with self.changed:
            self.goes_back = False
            self.returns += 1
            self.changed.notify_all()

    def describe(self, is_complete: Callable[[], bool]) -> str:
        """Return the state of the job in a word."""
        if self.error is not None:
            return "failed"
        if self.goes_back and not self.is_stopped:
            return "going back"
        if is_complete():
            return "complete"
        return "stopped" if self.is_stopped else "running" if self.has_started else "paused"
