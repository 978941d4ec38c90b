"""The job that a handle feeds, as the handle shows it: the program can fail the job, and hear of its end."""

from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.feed import EndCall, Feed


class FedJob:
    """The part of an `InputHandle` that concerns the job as a whole."""

    name: str
    _feed: Feed
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

        That is so in the driver's process. In another, to which the handle was handed over, it may be a second
        late, a job that was stopped is one that was lost, which is a JobError instead of None; and once all handles
        there are closed, that process hears no more of the job, so nothing is called.
        """
        self._feed.when_over(call)

    def forget(self, call: EndCall) -> None:
        """Take back `when_over`. Idempotent."""
        self._feed.forget(call)
