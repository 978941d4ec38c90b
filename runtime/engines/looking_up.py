"""Look-ups of keys in a collection at one epoch; the workers that own the keys answer."""

import threading
import time as clock
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pickle import PicklingError
from typing import TYPE_CHECKING, Any

from tidewheel.runtime.description.shards import owners_of
from tidewheel.runtime.errors import JobError, JobRolledBack
from tidewheel.runtime.inputs.feed import Feed
from tidewheel.runtime.messages.questions import ENDED, Answer, Question
from tidewheel.transport.frames import unpicklable

if TYPE_CHECKING:
    from tidewheel.runtime.engines.job import Job


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The values of some keys of a collection at one epoch.

    Attributes:
        time: the epoch; None for the final state, once the collection has ended.
        counts: for each key, its values with their counts, none of which is 0.
    """

    time: int | None
    counts: Mapping[Any, Mapping[Any, int]]

    @property
    def values(self) -> list[Any]:
        """The values of all keys in no particular order, each as often as its count."""
        return [value for key in self.counts for value in self[key]]

    def __getitem__(self, key: Any) -> list[Any]:
        """Return the values of a key in no particular order, each as often as its count."""
        return [value for value, count in self.counts[key].items() for _ in range(count)]


class LookUps:
    """The look-ups of the driver of one job: numbers its questions, and remembers which epochs it has read."""

    def __init__(self, job: "Job") -> None:
        self._job = job
        self.numbers = count()
        self._lock = threading.Lock()
        self._read: dict[str, tuple[Feed, int]] = {}

    def look_up(self, name: str, key: Any, time: object, timeout_s: float | None) -> LookedUp:
        job = self._job
        if time is not None and not (isinstance(time, int) and time >= 0):
            raise JobError(f"look-up {name!r} is as of an epoch, a whole number from 0 on, not as of {time!r}")
        job._life.check_alive()
        if not job._life.has_started:
            raise JobError(f"job {job.name!r} is paused, and its workers answer no look-up then: call start() first")
        keys = key if isinstance(key, list) else [key]
        by_worker: dict[int, list[Any]] = {}
        try:
            distinct = list(dict.fromkeys(keys))
            for one, worker in zip(distinct, owners_of(distinct, job.workers), strict=True):
                by_worker.setdefault(worker, []).append(one)
        except TypeError as error:
            raise JobError(f"look-up {name!r}: no record can have such a key: {error}") from error
        return LookUp(job, self, name, by_worker or {0: []}, time, timeout_s).run()

    def read_until(self, name: str, feed: Feed) -> int:
        by, time = self._read.get(name, (feed, 0))
        return time if by is feed else 0

    def note_read(self, name: str, feed: Feed, time: int) -> None:
        with self._lock:
            self._read[name] = feed, max(time, self.read_until(name, feed))


class _HasGoneBackError(Exception):
    """The job returns to a snapshot, so its workers will not answer."""


class LookUp:
    """One look-up; `tidewheel.runtime.messages.questions` says how several workers answer for the same time.

    Args:
        keys: the keys that each worker owns.
        time: the epoch; None for the newest complete one.
    """

    def __init__(
        self,
        job: "Job",
        all_of_job: LookUps,
        name: str,
        keys: Mapping[int, Sequence[Any]],
        time: int | None,
        timeout_s: float | None,
    ) -> None:
        self._job = job
        self._all = all_of_job
        self._name = name
        self._keys = keys
        self._time = time
        self._timeout = timeout_s
        self._until = None if timeout_s is None else clock.monotonic() + timeout_s
        self._feed: Feed = job._feed
        self._gone: Feed | None = None

    def run(self) -> LookedUp:
        while True:
            self._wait_for(self._is_there)
            try:
                answers = self._answers()
            except _HasGoneBackError:
                self._gone = self._feed
                continue
            time = max(answer.time for answer in answers.values())
            self._all.note_read(self._name, self._feed, time)
            self._job._captures.note_wait()
            counts = {
                key: dict(found)
                for worker, keys in self._keys.items()
                for key, found in zip(keys, answers[worker].found or (), strict=True)
            }
            return LookedUp(None if time == ENDED else time, counts)

    def _answers(self) -> dict[int, Answer]:
        is_exact = self._time is not None
        least = self._all.read_until(self._name, self._feed) if self._time is None else self._time
        asked: list[tuple[int, Question]] = []
        try:
            stays = not is_exact and len(self._keys) > 1
            answers = self._ask(self._keys, asked, time=least, is_exact=is_exact, stays=stays)
            newest = max(answer.time for answer in answers.values())
            behind = [worker for worker, answer in answers.items() if answer.time < newest]
            return answers | self._ask(behind, asked, time=newest, is_exact=True)
        finally:
            for worker, question in asked:
                self._feed.questions.withdraw(worker, question)

    def _ask(self, workers: Iterable[int], asked: list[tuple[int, Question]], **how: Any) -> dict[int, Answer]:
        operator = self._job.plan.lookups[self._name]
        numbers: dict[int, int] = {}
        for worker in workers:
            question = Question(next(self._all.numbers), operator, self._keys[worker], **how)
            numbers[question.number] = worker
            asked.append((worker, question))
            self._send(worker, question)
        self._wait_for(lambda: len(self._feed.questions.answers(numbers)) == len(numbers) or self._has_gone_back)
        answers = {numbers[answer.number]: answer for answer in self._feed.questions.answers(numbers)}
        if len(answers) < len(numbers):
            raise _HasGoneBackError
        for worker, answer in answers.items():
            self._check(worker, answer)
        return answers

    def _send(self, worker: int, question: Question) -> None:
        try:
            self._feed.questions.ask(worker, question)
        except JobRolledBack as error:
            raise _HasGoneBackError from error
        except (TypeError, AttributeError, PicklingError) as error:
            reason = unpicklable(question, error)
            raise JobError(f"look-up {self._name!r}: a key cannot be pickled: {reason}") from None

    def _check(self, worker: int, answer: Answer) -> None:
        if answer.problem is not None:
            raise JobError(f"look-up {self._name!r}: worker {worker} cannot answer: {answer.problem}")
        if answer.found is None:
            raise JobError(
                f"look-up {self._name!r}: worker {worker} has no state of epoch {self._time!r} any more: its history "
                f"begins at epoch {answer.time}. Leave time= out for the newest, or ask before the epoch is complete"
            )

    def _is_there(self) -> bool:
        self._feed = self._job._feed
        return not self._job._life.goes_back and self._feed is not self._gone

    @property
    def _has_gone_back(self) -> bool:
        return self._job._life.goes_back or self._job._feed is not self._feed

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        when = "" if self._time is None else f" as of epoch {self._time}"
        left_s = None if self._until is None else round(max(0.0, self._until - clock.monotonic()), 1)
        self._job._wait_for(condition, f"the answer to look-up {self._name!r}{when}", left_s, self._name)
