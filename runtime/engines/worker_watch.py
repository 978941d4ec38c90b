"""The watch on the workers of a Ray job, which notices when a worker dies or hangs."""

import time
from collections.abc import Sequence
from typing import Any

from tidewheel.host.ray_cluster import left, membership
from tidewheel.progress import TidewheelError
from tidewheel.runtime.errors import JobError, WorkerGone

_ANSWERS_WITHIN_S = 2.0
_DEATH_TOLD_WITHIN_S = 2.0
_LONGEST_LOOK_S = 2.5


class WorkerWatch:
    """Keeps one call to each worker pending. The call returns soon, or raises if the worker dies.

    Args:
        hang_timeout_s: how many seconds a worker may be silent. Time for which this process itself stood still does not
            count.

    Attributes:
        wanted: the jobs whose telemetry other processes have asked for.
    """

    def __init__(self, job: str, actors: Sequence[Any], processes: Sequence[str], hang_timeout_s: float) -> None:
        self._job = job
        self._joined = membership()
        self._actors = actors
        self._processes = processes
        self._hang_timeout_s = hang_timeout_s
        self._pending: dict[Any, int] = {}
        self._asked_at = [0.0] * len(actors)
        self._unanswered_s = [0.0] * len(actors)
        self._checked_at = time.monotonic()
        self._hung: int | None = None
        self.wanted: set[str] = set()
        for worker in range(len(actors)):
            self._ask(worker)

    def _ask(self, worker: int) -> None:
        self._pending[self._actors[worker].live.remote(_ANSWERS_WITHIN_S)] = worker
        self._asked_at[worker] = time.monotonic()
        self._unanswered_s[worker] = 0.0

    def wait(self, timeout_s: float, others: Sequence[Any] = ()) -> bool:
        """Wait at most ``timeout_s`` seconds for an answer; return whether one of the calls ``others`` has an answer.

        Raises:
            JobError: a worker died.
        """
        import ray

        is_other = False
        for call in ray.wait([*self._pending, *others], timeout=timeout_s)[0]:
            if call not in self._pending:
                is_other = True
                continue
            worker = self._pending.pop(call)
            try:
                self.wanted.update(ray.get(call))
            except ray.exceptions.RayError as error:
                raise self._death_of(worker, error) from None
            self._ask(worker)
        return is_other

    def check(self) -> None:
        """Raise JobError if a worker has not answered for too long; call this often."""
        before, self._checked_at = self._checked_at, time.monotonic()
        for worker in range(len(self._actors)):
            since = max(before, self._asked_at[worker])
            self._unanswered_s[worker] += min(self._checked_at - since, _LONGEST_LOOK_S)
            silent_s = self._unanswered_s[worker] - _ANSWERS_WITHIN_S
            if silent_s > self._hang_timeout_s:
                self._hung = worker
                raise JobError(
                    f"worker {worker} of job {self._job!r} ({self._processes[worker]}) hangs: it has given no sign "
                    f"of life for {silent_s:.0f} s. Its process was stopped, or code that it runs does not release "
                    "the interpreter. If that is right, raise RuntimeConfig.hang_timeout_s",
                    worker=worker,
                )

    def death_behind(self, error: TidewheelError) -> JobError | None:
        """Return the death of a worker that has caused an error; None if all workers in question are alive.

        A peer, or a publisher on the same node, may report a lost connection before Ray reports the death.
        """
        import ray

        if not isinstance(error, JobError) or error.operator is not None:
            return None
        suspects = range(len(self._actors)) if error.worker is None else [error.worker]
        calls = {self._actors[worker].live.remote(0.0): worker for worker in suspects if worker != self._hung}
        deadline_s = time.monotonic() + _DEATH_TOLD_WITHIN_S
        while calls:
            for call in ray.wait(list(calls), timeout=max(0.0, deadline_s - time.monotonic()))[0]:
                suspect = calls.pop(call)
                try:
                    ray.get(call)
                except ray.exceptions.RayError as death:
                    return self._death_of(suspect, death)
            if time.monotonic() >= deadline_s:
                break
        return None

    def _death_of(self, worker: int, error: Exception) -> JobError:
        if gone := left(self._joined):
            return JobError(f"job {self._job!r} has lost its workers: {gone}")
        return WorkerGone(
            f"worker {worker} of job {self._job!r} ({self._processes[worker]}) died: {error}", worker=worker
        )
