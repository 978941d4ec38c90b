"""The job behind a handle, as a bridge from another system sees it.

A bridge has to end the other system with the job, and to fail the job with the other system. It has to know what a
snapshot has, too. A program that feeds an input needs none of that, so the methods are not those of its handle.
"""

from typing import TYPE_CHECKING

from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.end_calls import EndCall

if TYPE_CHECKING:
    from tidewheel.runtime.inputs.input_handle import InputHandle


class FedJob:
    """The job that a handle feeds.

    Args:
        handle: the handle; its job may go back to a snapshot.
    """

    def __init__(self, handle: "InputHandle") -> None:
        self._handle = handle

    def fail(self, reason: str, cause: BaseException | None = None) -> None:
        """Fail the job: what was to be sent by the handle is missing. From any thread; of a closed handle, nothing.

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
        """Have ``call(failure)`` called once the job has failed, or ``call(None)`` once it was stopped; on any thread.

        If the job is over it is called at once. It must not wait: for what takes long it starts a thread. What it
        raises is logged.

        That is so in the driver's process. In another process the call may be a second late, and a job that was stopped
        counts as lost, so ``failure`` is a JobError. Once all handles there are closed, nothing is called.
        """
        self._handle._feed.end_calls.add(call)

    def forget(self, call: EndCall) -> None:
        """Take back `when_over`. Idempotent."""
        self._handle._feed.end_calls.remove(call)

    @property
    def goes_on(self) -> bool:
        """Whether the handle goes on from a snapshot of the job."""
        return not self._handle._is_new

    @property
    def keeps_snapshots(self) -> bool:
        """Whether the job keeps snapshots, if this process is its driver; see `check_saves`."""
        return self._handle._feed.keeps_snapshots

    def check_saves(self) -> None:
        """Raise JobError if the job keeps snapshots, and this process, as it is not the driver, knows none of them."""
        self._handle._feed.check_saves()
