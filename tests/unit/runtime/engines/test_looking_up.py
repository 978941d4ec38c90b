"""Several workers that see frontiers at different moments answer a look-up as of one epoch, whatever the order.

A whole group of workers runs under a seed. While the driver waits for an answer, envelopes arrive in any order, workers
step in any order, and the program goes on to further epochs. In each epoch all keys get the same new value.
"""

import collections
from collections.abc import Callable
from random import Random
from threading import RLock
from types import SimpleNamespace
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.worker_group import WorkerGroup
from tidewheel.runtime.description.shards import owners_of
from tidewheel.runtime.engines import looking_up
from tidewheel.runtime.engines.job_life import JobLife
from tidewheel.runtime.engines.looking_up import DriverAsker, LookedUp, LookUp, LookUps
from tidewheel.runtime.inputs.asking import Asking
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.messages.questions import ENDED, Answer, Question, Questions

KEYS = range(8)
MOST_ACTIONS = 20_000


class GroupFeed:
    """Carries questions to the workers of a group."""

    def __init__(self, group: WorkerGroup) -> None:
        self.lock = RLock()
        self.group = group
        self.questions = Asking(self)

    def check_alive(self) -> None:
        """Do nothing: the group lives."""

    def receive_answers(self) -> None:
        """Do nothing: a step of the job has them heard."""

    def send(self, worker: int, envelope: Envelope) -> int:
        """Put an envelope on its way."""
        self.group.in_flight[worker].append(envelope)
        return 0

    def envelope(self, worker: int, **parts: Any) -> Envelope:
        """Return the next envelope for a worker."""
        self.group.tell(worker, **parts)
        return self.group.in_flight[worker].pop()


class GroupJob:
    """A job of which everything is driven by chance; it stands in for a `Job`."""

    def __init__(self, seed: int, workers: int, **more: Any) -> None:
        self.random = Random(seed)
        flow = tw.Dataflow("pairs")
        flow.input("pairs").as_collection(diff=True).lookup("pairs")
        self.group = WorkerGroup(flow, workers, **more)
        self.plan = self.group.cores[0].plan
        self._feed = GroupFeed(self.group)
        self._life, self._captures = JobLife("job"), SimpleNamespace(note_wait=lambda: None)
        job: Any = self
        self._lookups = LookUps(DriverAsker(job))
        self.epoch = 0
        self.goes_on = True
        self._change()

    def _change(self) -> None:
        workers = range(len(self.group.cores))
        batches: list[list[Any]] = [[] for _ in workers]
        for key in KEYS:
            for change in [((key, self.epoch), 1)] + [((key, self.epoch - 1), -1)] * (self.epoch > 0):
                self.random.choice(batches).append(change)
        for worker in workers:
            self.group.send("pairs", batches[worker], worker=worker)

    def act(self) -> None:
        """Do one thing that can happen next."""
        random, group = self.random, self.group
        if self.goes_on and random.random() < 0.05 / len(group.cores):
            self.epoch += 1
            group.advance("pairs", self.epoch)
            self._change()
            return
        worker = random.randrange(len(group.cores))
        core, queue = group.cores[worker], group.in_flight[worker]
        if queue and random.random() < 0.7:
            place = random.randrange(min(len(queue), 4))
            envelope = queue[place]
            del queue[place]
            core.receive(envelope)
        elif not core.is_idle:
            group.step(worker)
        core.questions.tell(self._feed.questions.hear)

    def _wait_for(self, condition: Callable[[], bool], *_: object) -> None:
        for _action in range(MOST_ACTIONS):
            if condition():
                return
            self.act()
        raise AssertionError("there is no answer")

    def look_up(self, time: int | None = None) -> LookedUp:
        """Look some keys up."""
        keys: dict[int, list[int]] = {}
        some = self.random.sample(KEYS, self.random.randint(1, 5))
        for key, owner in zip(some, owners_of(some, len(self.group.cores)), strict=True):
            keys.setdefault(owner, []).append(key)
        found = LookUp(self._lookups, "pairs", self.plan.lookups["pairs"], keys, time, None).run()
        assert sorted(found.counts) == sorted(some)
        return found


def hammer(seed: int, workers: int, **more: Any) -> set[int]:
    """Look keys up again and again; return the epochs that were read."""
    job = GroupJob(seed, workers, **more)
    epochs = [-1]
    for _ in range(12):
        time = epochs[-1] + job.random.randint(1, 3) if job.random.random() < 0.2 else None
        try:
            found = job.look_up(time)
        except tw.JobError:
            assert time is not None, "the newest epoch can always be read"
            continue
        assert found.time is not None
        assert time in {None, found.time}
        assert found.counts == {key: {found.time: 1} for key in found.counts}, f"seed {seed}, epoch {found.time}"
        assert found.time >= epochs[-1], "no earlier epoch is read later"
        epochs.append(found.time)
    assert not any(core.questions._kept or core.questions._open for core in settled(job).group.cores)
    return set(epochs)


def settled(job: GroupJob) -> GroupJob:
    """Let all arrive that is on its way."""
    job.goes_on = False
    while any(job.group.in_flight):
        job.act()
    return job


@pytest.mark.parametrize("progress", ["broadcast", "accumulated"])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_all_keys_are_read_as_of_one_epoch(workers: int, progress: str) -> None:
    """Of all of one epoch, and no half of one; epochs never go back, and no question is left in the end."""
    for seed in range(4):
        assert len(hammer(seed, workers, progress=progress, hold_back=bool(seed % 2))) > 3


def test_who_waits_for_an_epoch_gets_it() -> None:
    """Though later ones are complete on other workers by then: each keeps what was asked for before it came."""
    for seed in range(4):
        job = GroupJob(seed, 3)
        for ahead in (1, 4, 9):
            time = job.epoch + ahead
            found = job.look_up(time)
            assert found == LookedUp(time, {key: {time: 1} for key in found.counts}), f"seed {seed}"


def no_history(self: Questions, operator: int, newest: int) -> int:
    return newest


def first_answers_only(
    self: LookUp, run: Any, workers: Any, asked: Any, *, ask: Any = LookUp._ask, **how: Any
) -> dict[int, Answer]:
    return {} if isinstance(workers, list) else ask(self, run, workers, asked, **how)


def too_early(self: Questions, operator: int, newest: int, *rest: Any, answer: Any = Questions.answer) -> None:
    answer(self, operator, min(newest + 1, ENDED), *rest)


@pytest.mark.parametrize(
    ("owner", "method", "fault"),
    [
        (Questions, "since", no_history),
        (Questions, "answer", too_early),
        (LookUp, "_ask", first_answers_only),
    ],
)
def test_faults_are_caught(owner: Any, method: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above fails if history is not kept, epochs are read too early, or each worker answers as of its own."""
    monkeypatch.setattr(owner, method, fault)
    with pytest.raises((AssertionError, tw.JobError)):
        collections.deque(hammer(seed, 4) for seed in range(20))


def test_an_idle_worker_stays_idle() -> None:
    """It takes no step for an answer: a feeder that waits for room sees by its steps that nothing else happens."""
    job = settled(GroupJob(0, 2))
    job.group.run()
    job.group.advance("pairs", 1)
    job.group.run()
    for worker, core in enumerate(job.group.cores):
        before = core.steps_at_rest
        job._feed.questions.ask(worker, Question(worker, job.plan.lookups["pairs"], [1]))
        job.group.deliver(worker)
        assert core.is_idle
        assert [answer.time for answer in core.questions.answers] == [0]
        assert core.steps_at_rest == before


def test_what_cannot_be_sent_is_said() -> None:
    """A worker that cannot send what it has found says so, and goes on."""
    job: Any = GroupJob(0, 1)
    question = LookUp(job._lookups, "pairs", job.plan.lookups["pairs"], {0: [1]}, None, None)
    with raises(tw.JobError):
        question._check(0, Answer(0, 1, problem="no lock"))


def test_it_asks_again_when_the_job_goes_back() -> None:
    """The workers that were asked are gone. Those that come after them have the answer."""
    job = GroupJob(1, 2)
    first, asked = job._feed, list[Question]()
    wait = job._wait_for

    def wait_for(condition: Callable[[], bool], *rest: object) -> None:
        if asked and job._feed is first and not job._life.goes_back:
            job._life.goes_back = True
            assert condition(), "the wait ends"
            return
        if job._life.goes_back:
            assert not condition(), "it waits for other workers"
            job._feed = GroupFeed(job.group)
            assert not condition(), "they are not there yet"
            job._life.goes_back = False
        wait(condition, *rest)

    def ask(worker: int, question: Question) -> None:
        asked.append(question)

    job._wait_for, first.questions.ask = wait_for, ask  # type: ignore[method-assign]
    found = job.look_up()
    assert asked, "it has asked before"
    assert found.counts == {key: {found.time: 1} for key in found.counts}


def test_values_come_as_often_as_they_are_there() -> None:
    """Of one key and of all; a negative count is no value."""
    found = LookedUp(3, {"a": {1: 2, 5: 1}, "b": {}, "c": {7: -1}})
    assert (found["a"], found["b"], found["c"], found.values) == ([1, 1, 5], [], [], [1, 1, 5])
    assert looking_up.LookedUp is tw.types.LookedUp
