"""The workers of a running job, as other processes call them, until the job ends or returns to a snapshot."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tidewheel.runtime.engines.running_jobs import (
    LOCAL_JOBS,
    RunningJob,
    find_job,
    jobs_named,
    running_here,
    running_jobs,
    workers_of,
)
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.door import Outcome, Posting
from tidewheel.runtime.worker.worker_actor import JobParts

ANSWER_S = 30.0
"""How long a worker may take to answer, in seconds."""


class RunEndedError(Exception):
    """A run of the job has ended.

    Attributes:
        is_refused: whether the call surely had no effect; if False, that is unknown.
    """

    def __init__(self, reason: str, *, is_refused: bool) -> None:
        super().__init__(reason)
        self.is_refused = is_refused


class JobRun(Protocol):
    @property
    def workers(self) -> int:
        """The number of workers."""

    @property
    def parts(self) -> JobParts:
        """The names in the job that other processes may use."""

    def leave(self, worker: int, name: str, postings: Sequence[Posting], timeout_s: float) -> list[Outcome]:
        """Leave postings at the door of an inbox on a worker.

        Raises:
            RunEndedError: the run has ended.
            TimeoutError: the worker did not answer in time, so the outcome is unknown.
        """

    def saved(self, worker: int, name: str) -> int:
        """Return how many postings at a door are in a snapshot; raise RunEndedError if the run has ended."""


@dataclass(frozen=True, slots=True, eq=False)
class RayRun:
    job: str
    actors: Sequence[Any]
    parts: JobParts

    @property
    def workers(self) -> int:
        return len(self.actors)

    def leave(self, worker: int, name: str, postings: Sequence[Posting], timeout_s: float) -> list[Outcome]:
        found: list[Outcome] = self._call(worker, "leave_postings", timeout_s, name, postings)
        return found

    def saved(self, worker: int, name: str) -> int:
        found: int = self._call(worker, "saved_postings", ANSWER_S, name)
        return found

    def _call(self, worker: int, method: str, timeout_s: float, *arguments: Any) -> Any:
        import ray

        call = getattr(self.actors[worker], method)
        with ended_runs(self.job, worker):
            return ray.get(call.remote(self.job, self.parts.incarnation, *arguments), timeout=timeout_s)


@contextmanager
def ended_runs(job: str, worker: int) -> Iterator[None]:
    """Raise RunEndedError instead of Ray's errors, and TimeoutError for a late answer."""
    import ray

    where = f"worker {worker} of job {job!r}"
    try:
        yield
    except ray.exceptions.GetTimeoutError:
        raise TimeoutError(f"{where} has not answered in time") from None
    except ray.exceptions.RayTaskError as error:
        if not isinstance(error.cause, JobError):
            raise
        raise RunEndedError(str(error.cause.args[0]), is_refused=True) from None
    except ray.exceptions.RayError as error:
        raise RunEndedError(f"{where} has died: {error}", is_refused=False) from None


@dataclass(frozen=True, slots=True, eq=False)
class LocalRun:
    job: Any
    parts: JobParts

    @property
    def workers(self) -> int:
        found: int = self.job.workers
        return found

    def leave(self, worker: int, name: str, postings: Sequence[Posting], timeout_s: float) -> list[Outcome]:
        found: list[Outcome] = self._door(worker, name).leave(postings)
        return found

    def saved(self, worker: int, name: str) -> int:
        found: int = self._door(worker, name).saved
        return found

    def _door(self, worker: int, name: str) -> Any:
        if self.job._life.has_ended:
            raise RunEndedError("it was stopped, or has failed", is_refused=True)
        return self.job._cores[worker].doors[name]


def find_run(name: str) -> tuple[RunningJob, JobRun]:
    """Return a running job of this process or the cluster, and its workers; raise JobError if none or several match."""
    here = running_here()
    if len(jobs_named(here, name)) == 1:
        one = find_job(here, name)
        return one, local_run(one.name)
    try:
        found = running_jobs()
    except JobError as error:
        names = ", ".join(job.name for job in here)
        raise JobError(f"local jobs of this process: {names or 'none'}; {error.args[0]}") from None
    one = find_job([*here, *found], name)
    return one, ray_run(one)


def local_run(name: str) -> LocalRun:
    job = LOCAL_JOBS[name]
    plan, doors = job.plan, job._cores[0].doors
    return LocalRun(
        job, JobParts(0, goes_back=False, inboxes=tuple(doors), inputs=tuple(plan.inputs), lookups=dict(plan.lookups))
    )


def ray_run(one: RunningJob) -> RayRun:
    import ray

    try:
        actors = workers_of(one)
        parts: JobParts = ray.get(actors[0].parts.remote(one.name), timeout=ANSWER_S)
    except (ValueError, ray.exceptions.RayError) as error:
        raise JobError(f"job {one.name!r} does not answer, or has just ended: {error}") from None
    return RayRun(one.name, actors, parts)
