"""The job behind a handle, for bridges to other systems.

A bridge ends the other system when the job ends, and fails the job when the other system fails. It must also know
whether the job keeps snapshots.
"""

from typing import TYPE_CHECKING

from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.end_calls import EndCall

if TYPE_CHECKING:
    from tidewheel.runtime.inputs.input_handle import InputHandle


class FedJob:
    """The job that a handle feeds, also after the job has returned to a snapshot."""

    def __init__(self, handle: "InputHandle") -> None:
        self._handle = handle

    def fail(self, reason: str, cause: BaseException | None = None) -> None:
        """Fail the job, since records of the handle are missing; thread-safe. No effect once the handle is closed.

        >>> from tidewheel import Dataflow, run
        >>> flow = Dataflow("orders")
        >>> _ = flow.input("orders").probe("done")
        >>> with run(flow, engine="local") as job:
        ...     FedJob(job.input("orders")).fail("the shop has closed its connection")
        Traceback (most recent call last):
        ...
        tidewheel.runtime.errors.JobError: input 'orders' cannot be fed any more: the shop has closed its connection
        """
        if self._handle.is_closed:
            return
        error = JobError(f"input {self._handle.name!r} cannot be fed any more: {reason}")
        error.__cause__ = cause
        self._handle._feed.fail(error)

    def when_over(self, call: EndCall) -> None:
        """Register a callback: ``call(failure)`` when the job has failed, ``call(None)`` when it was stopped.

        It is called on any thread, and at once if the job has ended. It must not wait, but may start a thread. Its
        exceptions are logged. Outside the driver's process, the call may come a second late, and a stopped job counts
        as lost: ``failure`` is then a JobError. Once all handles in such a process are closed, the callback is never
        called.
        """
        self._handle._feed.end_calls.add(call)

    def forget(self, call: EndCall) -> None:
        self._handle._feed.end_calls.remove(call)

    @property
    def goes_on(self) -> bool:
        return not self._handle._is_new

    @property
    def keeps_snapshots(self) -> bool:
        """True if the job keeps snapshots, and this process is its driver; see `check_saves`."""
        return self._handle._feed.keeps_snapshots

    def check_saves(self) -> None:
        """Raise JobError if the job keeps snapshots and this process is not its driver."""
        self._handle._feed.check_saves()
