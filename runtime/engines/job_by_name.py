"""A running job as any process of its cluster can use it by name: its inboxes and look-ups.

All calls are Ray calls to the actors of the workers, so callers belong to the cluster. A job that returns to a snapshot
begins another run, with the same workers or others. Workers refuse calls for an earlier run; the caller then finds the
job anew.
"""

import threading
import time as clock
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.engines.asking_by_name import NamedAsker, deadline
from tidewheel.runtime.engines.job_run import (
    ANSWER_S,
    JobRun,
    LocalRun,
    RunEndedError,
    find_run,
    local_run,
    ray_run,
)
from tidewheel.runtime.engines.looking_up import LookedUp, LookUps
from tidewheel.runtime.engines.running_jobs import LOCAL_JOBS, jobs_named, running_here, running_jobs
from tidewheel.runtime.errors import JobError, JobRolledBack, WouldBlock
from tidewheel.runtime.inputs.door import Full, Posting, Wrong

_LONGEST_KEY = 200
_AGAIN_S = 0.2
_FULL_AGAIN_S = 0.02
_SAVED_AGAIN_S = 0.1
_GONE_S = 20.0
"""A job that keeps snapshots counts as ended after this many seconds without workers."""


def job(name: str, *, timeout_s: float | None = 10.0) -> "JobByName":
    """Return a running job: in any process of its Ray cluster, or a local job in its own process.

    A process outside of a cluster connects as `subscribe` does.

    Args:
        name: the name of the job, or of its dataflow if only one job runs it.
        timeout_s: how many seconds to wait until the job runs; None waits forever.

    Raises:
        JobError: at the timeout, no job of that name runs, or more than one; the message has the names of running jobs.

    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("rates")
    >>> _ = flow.inbox("rates", tuple[str, float]).as_collection(upserts=True).lookup("rates")
    >>> with tw.run(flow, engine="local") as running:
    ...     found = tw.job("rates")
    ...     _ = found.input("rates").send([("EUR", 1.0), ("USD", 1.1)])
    ...     found.lookup("rates", "USD", time=0).values
    ...     running.stop()
    [1.1]
    """
    until = deadline(timeout_s)
    while True:
        problem: JobError
        try:
            one, run = find_run(name)
        except JobError as error:
            problem = error
        else:
            return JobByName(one.name, run)
        if clock.monotonic() >= until:
            raise JobError(f"no job {name!r} runs within {timeout_s:g} s; {problem.args[0]}")
        clock.sleep(min(_AGAIN_S, max(0.0, until - clock.monotonic())))


def jobs_with_lookup(job: str | None, name: str) -> tuple[dict[str, "JobByName"], list[str]]:
    """Return the running jobs with look-ups of that name, by the jobs' names; and the names of all look-ups.

    Args:
        job: the name of a job or dataflow; None for any.
        name: the name of the look-ups.

    Raises:
        JobError: this process has no local job, and there is no cluster.
    """
    here = running_here()
    try:
        there = running_jobs()
    except JobError:
        if not here:
            raise
        there = []
    found: dict[str, JobByName] = {}
    names: set[str] = set()
    for one in [*here, *there] if job is None else jobs_named([*here, *there], job):
        try:
            run = local_run(one.name) if one.name in LOCAL_JOBS else ray_run(one)
        except JobError:  # it has just ended
            continue
        names.update(run.parts.lookups)
        if name in run.parts.lookups:
            found[one.name] = JobByName(one.name, run)
    return found, sorted(names)


class JobByName:
    """A running job that another process has started; see `tidewheel.job`. Thread-safe.

    The object stands for this job only: once the job has ended, each call raises JobError. It follows a job that
    returns to a snapshot, even to other workers.

    Attributes:
        name: the name of the job.
    """

    def __init__(self, name: str, run: JobRun) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._run: JobRun | None = run
        self._is_local = isinstance(run, LocalRun)
        self._workers = run.workers
        self._parts = run.parts
        self._lookups = LookUps(NamedAsker(self))

    def input(self, name: str) -> "InputByName":
        """Return the inbox made by ``flow.inbox(name)``; raise JobError if there is none."""
        inboxes = self._parts.inboxes
        if name not in inboxes:
            by_handles = (
                f". Input {name!r} is fed by handles, which its driver hands over; to feed it by name, make it "
                f"flow.inbox({name!r})"
                if name in self._parts.inputs
                else ""
            )
            raise JobError(f"job {self.name!r} has no inbox {name!r}; it has {sorted(inboxes) or 'none'}{by_handles}")
        return InputByName(self, name)

    def lookup(self, name: str, key: Any, *, time: int | None = None, timeout_s: float | None = 10.0) -> LookedUp:
        """Return the values of a key, or of several, in a collection at one complete epoch, as `Job.lookup` does.

        Raises:
            JobError: there are no look-ups of that name, the epoch is not kept, or the job has ended.
            TimeoutError: there is no answer within ``timeout_s`` seconds.
        """
        return self._lookups.look_up(name, key, time, timeout_s)

    def __repr__(self) -> str:
        return f"<JobByName {self.name!r}>"

    # ------------------------------------------------------------------ the present run

    def _present(self, until: float) -> JobRun:
        """Return the present run; wait while the job may be returning to a snapshot.

        Raises:
            JobError: the job has ended.
            TimeoutError: it is still undecided whether the job returns.
        """
        ends = min(until, clock.monotonic() + _GONE_S)
        while True:
            run = self._run
            if run is not None:
                return run
            if self._is_local:
                raise JobError(f"job {self.name!r} has ended")
            try:
                found = find_run(self.name)[1]
            except JobError as error:
                if not self._parts.goes_back or ends <= clock.monotonic() < until:
                    raise JobError(f"job {self.name!r} has ended: {error.args[0]}") from None
                if clock.monotonic() >= ends:
                    raise TimeoutError(f"job {self.name!r} has ended, or still returns to a snapshot") from None
                clock.sleep(min(_AGAIN_S, max(0.0, ends - clock.monotonic())))
            else:
                with self._lock:
                    self._run = self._run or found

    def _forget(self, run: JobRun) -> None:
        with self._lock:
            if self._run is run:
                self._run = None


@dataclass(frozen=True, slots=True)
class Sent:
    """Records that were sent to an inbox; a worker has them in memory."""

    job: JobByName = field(repr=False)
    input: str
    worker: int
    number: int
    key: str | None = None
    _run: JobRun = field(repr=False, kw_only=True)

    def wait_until_saved(self, timeout_s: float | None = 300.0) -> None:
        """Wait until a snapshot has the records; in a job without snapshots, until they have been processed.

        The job takes snapshots by its own clock.

        Raises:
            JobRolledBack: the job has returned to a snapshot without the records, or has ended. Send them again, with
                the same key if the job may have received them.
            TimeoutError: no snapshot has had the records within ``timeout_s`` seconds.
        """
        until = deadline(timeout_s)
        while not self.is_saved():
            if clock.monotonic() >= until:
                raise TimeoutError(f"no snapshot has what was sent to input {self.input!r} within {timeout_s:g} s")
            clock.sleep(min(_SAVED_AGAIN_S, max(0.0, until - clock.monotonic())))

    def is_saved(self) -> bool:
        """Tell whether a snapshot has the records; raise JobRolledBack as `wait_until_saved` does."""
        return self._saved_there() >= self.number

    def _saved_there(self) -> int:
        """Return how many of the postings that this worker received for the input are in a snapshot."""
        try:
            return self._run.saved(self.worker, self.input)
        except RunEndedError as ended:
            self.job._forget(self._run)
            raise JobRolledBack(
                f"job {self.job.name!r} has gone back to a snapshot, or has ended, before a snapshot was known to have "
                f"what was sent to input {self.input!r}: send it again, with the same key: {ended}"
            ) from None


class InputByName:
    """An inbox of a running job, in any process; see `JobByName.input`. Thread-safe; needs no closing."""

    def __init__(self, job: JobByName, name: str) -> None:
        self.job = job
        self.name = name
        self._turns = count()

    def send(self, batch: Any, *, key: str | None = None, timeout_s: float | None = 10.0) -> Sent:
        """Send records, all of them or none; return once a worker has them in memory.

        The worker chooses the epoch, which is the same for all records of a call. Batches of one process may overtake
        each other. If the job returns to a snapshot, records that are not in it are gone: `Sent.wait_until_saved`
        raises then.

        Args:
            batch: a list, Arrow table, record batch or NumPy array.
            key: for a day, records with this key count once, however often and by whomever they are sent. With a key,
                `send` repeats itself when a worker dies. Up to 200 characters.
            timeout_s: how many seconds to wait while the inbox is full or the job returns to a snapshot; None waits as
                long as the job lives.

        Raises:
            TypeError: the records do not have the inbox's type, or the key is not such a text.
            WouldBlock: the inbox was full until the timeout; nothing was sent.
            JobRolledBack: the worker has died, and without a key it is unknown whether the records had arrived.
            JobError: the job has ended.
            TimeoutError: the worker did not answer in time, or the job did not return to a snapshot in time. The
                records may have been sent.
        """
        check_key(key)
        return self._send(Posting(batch, key), timeout_s)

    def _send(self, posting: Posting, timeout_s: float | None) -> Sent:
        until = deadline(timeout_s)
        while True:
            run = self.job._present(until)
            worker = self._worker(posting.key, run.workers)
            left_s = max(_AGAIN_S, until - clock.monotonic())
            try:
                [outcome] = run.leave(worker, self.name, [posting], min(left_s, ANSWER_S))
            except RunEndedError as ended:
                self.job._forget(run)
                if not ended.is_refused and posting.key is None and self.job._parts.goes_back:
                    raise JobRolledBack(
                        f"input {self.name!r}: {ended}. It may have had the records, and a snapshot may have "
                        "them. Send them with a key, so that they count once"
                    ) from None
                if clock.monotonic() >= until:
                    self.job._present(until)
                    raise TimeoutError(
                        f"input {self.name!r} had no worker for {timeout_s:g} s: {ended}. The records may be sent: "
                        "send them again with the same key"
                    ) from None
                clock.sleep(min(_AGAIN_S, max(0.0, until - clock.monotonic())))
                continue
            match outcome:
                case int():
                    return Sent(self.job, self.name, worker, outcome, posting.key, _run=run)
                case Wrong(reason):
                    raise TypeError(reason)
                case Full():
                    if clock.monotonic() >= until:
                        raise WouldBlock(
                            f"input {self.name!r} of job {self.job.name!r} is full, and was for {timeout_s:g} s: the "
                            "dataflow reads less than is sent. Nothing was sent: try again later"
                        )
                    clock.sleep(_FULL_AGAIN_S)

    def _worker(self, key: str | None, workers: int) -> int:
        return owner_of(key, workers) if key is not None else next(self._turns) % workers

    def __repr__(self) -> str:
        return f"<InputByName {self.name!r} of job {self.job.name!r}>"


def check_key(key: object) -> None:
    """Raise TypeError unless a key is None or a text of 1 to 200 printable characters."""
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= _LONGEST_KEY and key.isprintable()):
        raise TypeError(f"a key is a text of 1 to {_LONGEST_KEY} printable characters, not {key!r:.250}")
