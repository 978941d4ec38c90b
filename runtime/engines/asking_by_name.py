"""Look-ups in a job that another process has started, by calls of its workers."""

import math
import threading
import time as clock
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from tidewheel.runtime.engines.job_run import JobRun, LocalRun, RayRun, RunEndedError, ended_runs
from tidewheel.runtime.engines.looking_up import AskedRun, HasGoneBackError
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.messages.questions import Answer, Question

if TYPE_CHECKING:
    from tidewheel.runtime.engines.job_by_name import JobByName

_ASK_S = 2.0
_AGAIN_S = 0.02


def deadline(timeout_s: float | None) -> float:
    """Return the monotonic time in ``timeout_s`` seconds from now; infinite for None."""
    return math.inf if timeout_s is None else clock.monotonic() + timeout_s


class NamedAsker:
    def __init__(self, job: "JobByName") -> None:
        self._job = job
        self._made: dict[JobRun, AskedRun] = {}

    @property
    def workers(self) -> int:
        return self._job._workers

    def operator(self, name: str) -> int:
        lookups = self._job._parts.lookups
        if name not in lookups:
            raise JobError(f"job {self._job.name!r} has no look-up {name!r}; it has {sorted(lookups) or 'none'}")
        return lookups[name]

    def run(self, gone: AskedRun | None, left_s: float | None) -> AskedRun:
        present = self._job._present(deadline(left_s))
        if isinstance(present, LocalRun):
            run: AskedRun = present.job._lookups.asker.run(gone, left_s)
            return run
        assert isinstance(present, RayRun)
        with self._job._lock:
            made = self._made.get(present)
            if made is None:
                self._made = {present: _RayAsking(self._job, present)}
            return self._made[present]


class _RayAsking:
    def __init__(self, job: "JobByName", run: RayRun) -> None:
        self._job = job
        self._run = run
        self._lock = threading.Lock()
        self._asked: dict[int, tuple[int, Question, Any]] = {}

    def ask(self, worker: int, question: Question) -> None:
        call = self._call(worker, question)
        with self._lock:
            self._asked[question.number] = worker, question, call

    def _call(self, worker: int, question: Question) -> Any:
        run = self._run
        return run.actors[worker].ask.remote(run.job, run.parts.incarnation, question, _ASK_S)

    def withdraw(self, worker: int, question: Question) -> None:
        with self._lock:
            self._asked.pop(question.number, None)
        if question.stays:
            self._call(worker, Question(question.number, question.operator))

    def answers(self, numbers: Collection[int], what: str, left_s: float | None, name: str) -> Sequence[Answer]:
        import ray

        until = deadline(left_s)
        found: dict[int, Answer] = {}
        while missing := [number for number in numbers if number not in found]:
            with self._lock:
                waiting = {self._asked[number][2]: number for number in missing}
            patience_s = min(_ASK_S, max(0.0, until - clock.monotonic()))
            for call in ray.wait(list(waiting), timeout=patience_s)[0]:
                self._hear(waiting[call], call, found)
            if len(found) < len(numbers) and clock.monotonic() >= until:
                raise TimeoutError(f"waited {left_s} s for {what} of job {self._job.name!r}")
        return [found[number] for number in numbers]

    def _hear(self, number: int, call: Any, found: dict[int, Answer]) -> None:
        import ray

        worker, question, _ = self._asked[number]
        try:
            with ended_runs(self._run.job, worker):
                answer = ray.get(call)
        except RunEndedError as ended:
            self._job._forget(self._run)
            raise HasGoneBackError from ended
        if answer is not None:
            found[number] = answer
            return
        clock.sleep(_AGAIN_S)  # too many ask it at once, or the epoch is not complete
        self.ask(worker, question)
