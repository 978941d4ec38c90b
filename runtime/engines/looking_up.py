"""Look-ups of keys in a collection at one epoch; the workers that own the keys answer."""

import secrets
import threading
import time as clock
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, Protocol

from tidewheel.runtime.description.shards import owners_of
from tidewheel.runtime.errors import JobError, JobRolledBack
from tidewheel.runtime.inputs.feed import Feed
from tidewheel.runtime.messages.questions import ENDED, Answer, Question
from tidewheel.transport.frames import unpicklable

if TYPE_CHECKING:
    from tidewheel.runtime.engines.job import Job

_NUMBER_BITS = 62


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The values of some keys of a collection at one epoch.

    Attributes:
        time: the epoch; None for the final state, after the collection has ended.
        counts: for each key, its values with their counts; no count is 0.
    """

    time: int | None
    counts: Mapping[Any, Mapping[Any, int]]

    @property
    def values(self) -> list[Any]:
        """The values of all keys in any order, each as often as its count."""
        return [value for key in self.counts for value in self[key]]

    def __getitem__(self, key: Any) -> list[Any]:
        """Return the values of a key in any order, each as often as its count."""
        return [value for value, count in self.counts[key].items() for _ in range(count)]


class HasGoneBackError(Exception):
    """The job returns to a snapshot, so its workers no longer answer."""


class AskedRun(Protocol):
    """The workers of a job, as one process asks them, until the job returns to a snapshot."""

    def ask(self, worker: int, question: Question) -> None:
        """Send a worker a question; raise HasGoneBackError if the run has ended."""

    def withdraw(self, worker: int, question: Question) -> None:
        """No longer expect an answer, and let the worker forget the question."""

    def answers(self, numbers: Collection[int], what: str, left_s: float | None, name: str) -> Sequence[Answer]:
        """Wait for the answers to all questions.

        Raises:
            HasGoneBackError: the run has ended.
            TimeoutError: an answer did not come within ``left_s`` seconds.
        """


class Asker(Protocol):
    """A job, for a process that looks up keys in it."""

    @property
    def workers(self) -> int:
        """The number of workers."""

    def operator(self, name: str) -> int:
        """Return the number of the operator of look-ups; raise JobError if there are none of that name."""

    def run(self, gone: AskedRun | None, left_s: float | None) -> AskedRun:
        """Return the present run; if that is ``gone``, wait for the next run."""


class LookUps:
    """The look-ups of one process in a job: their numbered questions, and the epochs already read."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.numbers = count(secrets.randbits(_NUMBER_BITS))  # since several processes ask the same workers
        self._lock = threading.Lock()
        self._read: dict[str, tuple[AskedRun, int]] = {}

    def look_up(self, name: str, key: Any, time: object, timeout_s: float | None) -> LookedUp:
        operator = self.asker.operator(name)
        if time is not None and not (isinstance(time, int) and time >= 0):
            raise JobError(f"look-up {name!r} is as of an epoch, a whole number from 0 on, not as of {time!r}")
        keys = key if isinstance(key, list) else [key]
        by_worker: dict[int, list[Any]] = {}
        try:
            distinct = list(dict.fromkeys(keys))
            for one, worker in zip(distinct, owners_of(distinct, self.asker.workers), strict=True):
                by_worker.setdefault(worker, []).append(one)
        except TypeError as error:
            raise JobError(f"look-up {name!r}: no record can have such a key: {error}") from error
        return LookUp(self, name, operator, by_worker or {0: []}, time, timeout_s).run()

    def read_until(self, name: str, run: AskedRun) -> int:
        by, time = self._read.get(name, (run, 0))
        return time if by is run else 0

    def note_read(self, name: str, run: AskedRun, time: int) -> None:
        with self._lock:
            self._read[name] = run, max(time, self.read_until(name, run))


class LookUp:
    """One look-up. `tidewheel.runtime.messages.questions` says how several workers answer for the same time.

    Args:
        keys: the keys that each worker owns.
        time: the epoch; None for the newest complete one.
    """

    def __init__(
        self,
        all_of_process: LookUps,
        name: str,
        operator: int,
        keys: Mapping[int, Sequence[Any]],
        time: int | None,
        timeout_s: float | None,
    ) -> None:
        self._all = all_of_process
        self._name = name
        self._operator = operator
        self._keys = keys
        self._time = time
        self._until = None if timeout_s is None else clock.monotonic() + timeout_s

    def run(self) -> LookedUp:
        gone: AskedRun | None = None
        while True:
            run = self._all.asker.run(gone, self._left_s)
            try:
                answers = self._answers(run)
            except HasGoneBackError:
                gone = run
                continue
            time = max(answer.time for answer in answers.values())
            self._all.note_read(self._name, run, time)
            counts = {
                key: dict(found)
                for worker, keys in self._keys.items()
                for key, found in zip(keys, answers[worker].found or (), strict=True)
            }
            return LookedUp(None if time == ENDED else time, counts)

    def _answers(self, run: AskedRun) -> dict[int, Answer]:
        is_exact = self._time is not None
        least = self._all.read_until(self._name, run) if self._time is None else self._time
        asked: list[tuple[int, Question]] = []
        try:
            stays = not is_exact and len(self._keys) > 1
            answers = self._ask(run, self._keys, asked, time=least, is_exact=is_exact, stays=stays)
            newest = max(answer.time for answer in answers.values())
            behind = [worker for worker, answer in answers.items() if answer.time < newest]
            return answers | self._ask(run, behind, asked, time=newest, is_exact=True)
        finally:
            for worker, question in asked:
                run.withdraw(worker, question)

    def _ask(
        self, run: AskedRun, workers: Iterable[int], asked: list[tuple[int, Question]], **how: Any
    ) -> dict[int, Answer]:
        numbers: dict[int, int] = {}
        for worker in workers:
            question = Question(next(self._all.numbers), self._operator, self._keys[worker], **how)
            numbers[question.number] = worker
            asked.append((worker, question))
            try:
                run.ask(worker, question)
            except (TypeError, AttributeError, PicklingError) as error:
                reason = unpicklable(question, error)
                raise JobError(f"look-up {self._name!r}: a key cannot be pickled: {reason}") from None
        when = "" if self._time is None else f" as of epoch {self._time}"
        found = run.answers(numbers, f"the answer to look-up {self._name!r}{when}", self._left_s, self._name)
        answers = {numbers[answer.number]: answer for answer in found}
        for worker, answer in answers.items():
            self._check(worker, answer)
        return answers

    def _check(self, worker: int, answer: Answer) -> None:
        if answer.problem is not None:
            raise JobError(f"look-up {self._name!r}: worker {worker} cannot answer: {answer.problem}")
        if answer.found is None:
            raise JobError(
                f"look-up {self._name!r}: worker {worker} has no state of epoch {self._time!r} any more: its history "
                f"begins at epoch {answer.time}. Leave time= out for the newest, or ask before the epoch is complete"
            )

    @property
    def _left_s(self) -> float | None:
        return None if self._until is None else round(max(0.0, self._until - clock.monotonic()), 1)


class DriverAsker:
    """A job, for look-ups by its driver over the job's feed."""

    def __init__(self, job: "Job") -> None:
        self._job = job
        self._lock = threading.Lock()
        self._present: _FeedRun | None = None

    @property
    def workers(self) -> int:
        return self._job.workers

    def operator(self, name: str) -> int:
        job = self._job
        if name not in job.plan.lookups:
            there = sorted(job.plan.lookups) or "none"
            raise JobError(f"dataflow {job.plan.name!r} has no look-up {name!r}; it has {there}")
        job._life.check_alive()
        if not job._life.has_started:
            raise JobError(f"job {job.name!r} is paused, and its workers answer no look-up then: call start() first")
        return job.plan.lookups[name]

    def run(self, gone: AskedRun | None, left_s: float | None) -> "_FeedRun":
        job = self._job
        before = gone.feed if isinstance(gone, _FeedRun) else None
        job._wait_for(lambda: not job._life.goes_back and job._feed is not before, "the return to a snapshot", left_s)
        with self._lock:  # one object for each feed, as the key of the epochs that were read
            if self._present is None or self._present.feed is not job._feed:
                self._present = _FeedRun(job, job._feed)
            return self._present


class _FeedRun:
    def __init__(self, job: "Job", feed: Feed) -> None:
        self._job = job
        self.feed = feed

    def ask(self, worker: int, question: Question) -> None:
        try:
            self.feed.questions.ask(worker, question)
        except JobRolledBack as error:
            raise HasGoneBackError from error

    def withdraw(self, worker: int, question: Question) -> None:
        self.feed.questions.withdraw(worker, question)

    def answers(self, numbers: Collection[int], what: str, left_s: float | None, name: str) -> Sequence[Answer]:
        questions = self.feed.questions
        are_there: Callable[[], bool] = lambda: len(questions.answers(numbers)) == len(numbers)  # noqa: E731
        self._job._wait_for(lambda: are_there() or self._has_gone_back, what, left_s, name)
        if not are_there():
            raise HasGoneBackError
        self._job._captures.note_wait()
        return questions.answers(numbers)

    @property
    def _has_gone_back(self) -> bool:
        return self._job._life.goes_back or self._job._feed is not self.feed
