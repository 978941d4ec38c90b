"""The lanes of a gateway to the workers of a job: what shares a call, what is sent again, and what clients are told."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.waiting import WITHIN_S
from tidewheel.gateway.errors import BadRequest, GatewayError, InputFull
from tidewheel.gateway.lanes import MOST_WAITING_BYTES, Lanes, SnapshotWatch
from tidewheel.runtime.engines.job_by_name import JobByName, Sent
from tidewheel.runtime.engines.job_run import RunEndedError
from tidewheel.runtime.inputs.door import Full, Outcome, Posting, Wrong
from tidewheel.runtime.worker.worker_actor import JobParts

LATE_S = 1e12


class Run:
    """A run of a job that answers when it is told to."""

    workers = 1
    parts = JobParts(1, True, ("payments",), (), {})

    def __init__(self, *answers: Sequence[Outcome] | Exception) -> None:
        self.answers = list(answers)
        self.calls: list[list[Posting]] = []
        self.saved_there: int | Exception = 0
        self.may_answer = threading.Event()
        self.called = threading.Event()

    def leave(self, worker: int, name: str, postings: Sequence[Posting], timeout_s: float) -> list[Outcome]:
        """Answer with the next answer."""
        self.calls.append(list(postings))
        self.called.set()
        assert self.may_answer.wait(WITHIN_S)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    def saved(self, worker: int, name: str) -> int:
        """Answer at once."""
        if isinstance(self.saved_there, Exception):
            raise self.saved_there
        return self.saved_there


def lanes_to(*runs: Run, then: Exception | None = None) -> Lanes:
    """Return the lanes to a job with runs, one after the other; then looking for it raises."""
    job: Any = JobByName("fraud-1", runs[0])
    left = list(runs)

    def present(until: float) -> Run:
        if not left:
            assert then is not None
            raise then
        return left[0]

    job._present, job._forget = present, left.remove
    return Lanes(job, "payments", 1)


def posting(key: str | None = None, body: bytes = b"1") -> Posting:
    return Posting(body, key, "json")


def test_what_comes_during_a_call_shares_the_next_one() -> None:
    """Many small requests cost two calls, and each has its own outcome."""
    run = Run([1], [2, Full(), Wrong("line 3: no"), 3])
    lanes = lanes_to(run)
    first = lanes.submit(posting("a"), LATE_S)
    assert run.called.wait(WITHIN_S)
    others = [lanes.submit(posting(key), LATE_S) for key in ("b", "c", "d", "e")]
    run.may_answer.set()
    assert [one.result(WITHIN_S).number for one in (first, others[0], others[3])] == [1, 2, 3]
    with pytest.raises(InputFull):
        others[1].result(WITHIN_S)
    with pytest.raises(BadRequest, match="line 3"):
        others[2].result(WITHIN_S)
    assert [len(call) for call in run.calls] == [1, 4]
    lanes.close()


def test_a_worker_that_does_not_answer_is_told_as_such() -> None:
    """As an error of the gateway, which a client may answer by trying again; the lane goes on."""
    run = Run(TimeoutError("worker 0 has not answered in time"), [1])
    run.may_answer.set()
    lanes = lanes_to(run)
    with raises(GatewayError):
        lanes.submit(posting("a"), LATE_S).result(WITHIN_S)
    assert lanes.submit(posting("a"), LATE_S).result(WITHIN_S).number == 1
    lanes.close()


def test_a_dead_worker_is_not_called_again_and_again() -> None:
    """While the cluster still lists it, the lane waits between two calls."""

    class Dead(Run):
        def leave(self, worker: int, name: str, postings: Sequence[Posting], timeout_s: float) -> list[Outcome]:
            self.calls.append(list(postings))
            raise RunEndedError("worker 0 has died", is_refused=False)

    run = Dead()
    job: Any = JobByName("fraud-1", run)
    job._present, job._forget = lambda until: run, lambda gone: None
    lanes = Lanes(job, "payments", 1)
    with pytest.raises(tw.JobRolledBack):
        lanes.submit(posting("a"), time.monotonic() + 0.5).result(WITHIN_S)
    assert 2 <= len(run.calls) < 10
    lanes.close()


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_key_is_sent_to_the_next_run(is_refused: bool) -> None:
    """Without one only what the run before has refused: else nobody knows whether it counts already."""
    before, after = Run(RunEndedError("it has died", is_refused=is_refused)), Run([1, 2])
    lanes = lanes_to(before, after)
    blocker = lanes.submit(posting(), LATE_S)
    assert before.called.wait(WITHIN_S)
    keyed, keyless = lanes.submit(posting("a"), LATE_S), lanes.submit(posting(), LATE_S)
    after.answers = [[1, 2, 3]] if is_refused else [[1, 2]]
    before.may_answer.set()
    after.may_answer.set()
    assert keyed.result(WITHIN_S).key == "a"
    assert keyless.result(WITHIN_S).key is None, "it was not under way yet"
    if is_refused:
        assert blocker.result(WITHIN_S).number == 1
    else:
        with pytest.raises(tw.JobRolledBack):
            blocker.result(WITHIN_S)
    lanes.close()


def test_a_key_is_not_sent_again_for_ever() -> None:
    """After the time of its request the client is told to send it again."""
    run = Run(RunEndedError("it has died", is_refused=True))
    run.may_answer.set()
    lanes = lanes_to(run)
    with pytest.raises(tw.JobRolledBack):
        lanes.submit(posting("a"), 0.0).result(WITHIN_S)
    lanes.close()


def test_all_that_waits_learns_of_the_end_of_the_job() -> None:
    """Whether or not it has a key."""
    run = Run(RunEndedError("it has died", is_refused=True))
    lanes = lanes_to(run, then=tw.JobError("it has ended"))
    sent = [lanes.submit(posting(key), LATE_S) for key in ("a", None)]
    run.may_answer.set()
    for one in sent:
        with pytest.raises(tw.JobError):
            one.result(WITHIN_S)
    lanes.close()


def test_no_more_waits_than_there_is_room() -> None:
    """What was sent makes room again; what finds none is refused at once."""
    run = Run([1], [2])
    lanes = lanes_to(run)
    first = lanes.submit(posting(body=bytes(MOST_WAITING_BYTES)), LATE_S)
    with pytest.raises(InputFull):
        lanes.submit(posting(), LATE_S)
    run.may_answer.set()
    first.result(WITHIN_S)
    lanes.close()


def test_a_client_that_has_left_hinders_no_other() -> None:
    """Its future is cancelled while its records are on their way."""
    run = Run([1, 2])
    lanes = lanes_to(run)
    run.answers = [[1], [2, 3]]
    lanes.submit(posting(), LATE_S)
    assert run.called.wait(WITHIN_S)
    left, stays = lanes.submit(posting(), LATE_S), lanes.submit(posting(), LATE_S)
    left.cancel()
    run.may_answer.set()
    assert stays.result(WITHIN_S).number == 3
    lanes.close()


def sent_by(run: Run, number: int) -> Sent:
    return Sent(JobByName("fraud-1", run), "payments", 0, number, _run=run)


def test_snapshots_are_looked_for_until_they_have_what_was_sent() -> None:
    """Each request is told when its own records are there, or when the job has gone back."""
    watch, run = SnapshotWatch(), Run()
    early, late = watch.saved(sent_by(run, 1)), watch.saved(sent_by(run, 5))
    run.saved_there = 2
    early.result(WITHIN_S)
    assert not late.done()
    run.saved_there = RunEndedError("it has died", is_refused=True)
    with pytest.raises(tw.JobRolledBack):
        late.result(WITHIN_S)
    nothing: Future[None] = watch.saved(sent_by(Run(), 1))
    nothing.cancel()
    watch.close()
