"""The job that a handle feeds, as the handle shows it: the program can fail the job, and hear of its end."""

from collections.abc import Callable
from threading import RLock
from typing import Protocol, TypeAlias

from tidewheel.runtime.errors import JobError

EndCall: TypeAlias = Callable[[Exception | None], None]
"""Told that a job is over, with why it has failed, if it has."""


class _Feed(Protocol):
    lock: RLock

    def fail(self, error: JobError) -> None: ...
    def when_over(self, call: EndCall) -> None: ...
    def forget(self, call: EndCall) -> None: ...
    @property
    def keeps_snapshots(self) -> bool: ...
    def check_saves(self) -> None: ...
    def save(self, timeout: float) -> None: ...
    def wait_until_usable(self) -> None: ...


class FedJob:
    """The part of an `InputHandle` that concerns the job as a whole."""

    name: str
    _feed: _Feed
    _ended: str | None

    def fail(self, reason: str, cause: BaseException | None = None) -> None:
        """Fail the job: what was to be sent by this handle is missing. From any thread; of a closed handle, nothing.

        >>> from tidewheel import Dataflow, run
        >>> flow = Dataflow("orders")
        >>> _ = flow.input("orders").probe("done")
        >>> with run(flow, engine="local") as job:
        ...     job.input("orders").fail("the shop has closed its connection")
        Traceback (most recent call last):
        ...
        tidewheel.runtime.errors.JobError: input 'orders' cannot be fed any more: the shop has closed its connection
        """
        if self._ended is not None:
            return
        error = JobError(f"input {self.name!r} cannot be fed any more: {reason}")
        error.__cause__ = cause
        self._feed.fail(error)

    def when_over(self, call: EndCall) -> None:
        """Have ``call(failure)`` called once the job has failed, or ``call(None)`` once it was stopped; on any thread.

        If the job is over it is called at once. It must not wait: for what takes long it starts a thread. What it
        raises is logged.

        That is so in the driver's process. In another process the call may be a second late, and a job that was stopped
        counts as lost, so ``failure`` is a JobError. Once all handles there are closed, nothing is called.
        """
        self._feed.when_over(call)

    @property
    def keeps_snapshots(self) -> bool:
        """Whether the job keeps snapshots, if this process is its driver; see `check_saves`."""
        return self._feed.keeps_snapshots

    def check_saves(self) -> None:
        """Raise JobError if the job keeps snapshots, and this process, as it is not the driver, knows none of them."""
        self._feed.check_saves()

    def forget(self, call: EndCall) -> None:
        """Take back `when_over`. Idempotent."""
        self._feed.forget(call)
