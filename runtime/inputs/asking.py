"""The questions that a feeding process asks the workers, and the answers."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, Protocol

from tidewheel.progress import TidewheelError
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.messages.questions import Answer, Question
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport

_REPORT_TIMEOUT_S = 2.0


def ask_workers(
    actors: Sequence[Any], job: str, within_s: float = _REPORT_TIMEOUT_S
) -> list[WorkerReport | BusyWorker]:
    """Return the report of each worker of a job, within twice ``within_s`` seconds."""
    import ray

    calls = [actor.report.remote(job, within_s) for actor in actors]
    ray.wait(calls, num_returns=len(calls), timeout=2 * within_s)
    reports: list[WorkerReport | BusyWorker] = []
    for worker, call in enumerate(calls):
        try:
            reports.append(ray.get(call, timeout=0))
        except ray.exceptions.RayError as error:  # too late, or the worker has died, which the watch reports
            reports.append(BusyWorker(worker, is_dead=isinstance(error, ray.exceptions.RayActorError)))
    return reports


class Carrier(Protocol):
    """The feed that carries questions to the workers."""

    lock: RLock

    def check_alive(self) -> None: ...

    def send(self, worker: int, envelope: Envelope) -> int: ...

    def envelope(self, worker: int, **parts: Any) -> Envelope: ...

    def receive_answers(self) -> None:
        """Pass received answers to `Asking.hear`, unless another thread does that."""


class Asking:
    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._answers: dict[int, list[Answer]] = {}

    def ask(self, worker: int, question: Question) -> None:
        """Send a question to a worker; `hear` receives the answer.

        Raises:
            JobError: the job has failed or was stopped.
            JobRolledBack: the job returns to a snapshot.
            TypeError, AttributeError, PicklingError: a key cannot be pickled.
        """
        with self._carrier.lock:
            self._carrier.check_alive()
            self._answers[question.number] = []
            self._carrier.send(worker, self._carrier.envelope(worker, question=question))

    def withdraw(self, worker: int, question: Question) -> None:
        """Ignore an answer that still comes, and tell the worker to forget the question."""
        with self._carrier.lock, suppress(TidewheelError):
            if not self._answers.pop(question.number, None) or question.stays:
                self._carrier.check_alive()
                forgotten = Question(question.number, question.operator)
                self._carrier.send(worker, self._carrier.envelope(worker, question=forgotten))

    def hear(self, answer: Answer) -> None:
        self._answers.get(answer.number, []).append(answer)

    def answers(self, numbers: Collection[int]) -> list[Answer]:
        self._carrier.receive_answers()
        return [answer for number in numbers for answer in self._answers.get(number, ())]
