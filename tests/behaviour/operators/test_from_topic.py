"""Dataflows that read what other dataflows publish, on the local engine."""

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import settle

DEADLINE_S = 20.0


def publisher(topic: str, *, domain: tw.progress.TimeDomain | None = None) -> tw.Dataflow:
    """Describe a dataflow that publishes its input as it is."""
    flow = tw.Dataflow("first") if domain is None else tw.Dataflow("first", domain)
    flow.input("numbers").exchange(lambda n: n).publish(topic)
    return flow


def by_epoch(job: tw.types.Job, name: str) -> dict[Any, Counter[int]]:
    """Return what was captured, by time."""
    found: dict[Any, Counter[int]] = {}
    for captured in job.captured(name):
        found.setdefault(captured.time, Counter()).update(captured.batch)
    return found


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


@pytest.mark.parametrize("workers", [1, 3], ids=["one-worker", "three-workers"])
def test_what_one_job_publishes_another_reads(topic: str, workers: int) -> None:
    """Records, times and the end are the same on both sides."""
    flow = tw.Dataflow("second")
    flow.from_topic(topic).exchange(lambda n: n).map(lambda n: n * 10).capture("tens")
    with (
        tw.run(publisher(topic), workers=2, engine="local") as one,
        tw.run(flow, workers=workers, engine="local") as other,
    ):
        one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
        with one.input("numbers") as numbers:
            for epoch in range(4):
                numbers.send(list(range(epoch + 1)))
                numbers.advance_to(epoch + 1)
        other.wait(timeout_s=DEADLINE_S)
        assert by_epoch(other, "tens") == {epoch: Counter(n * 10 for n in range(epoch + 1)) for epoch in range(4)}


def test_times_complete_here_when_they_do_there(topic: str) -> None:
    """A probe behind the topic follows the other job's input, and no further."""
    flow = tw.Dataflow("second")
    flow.from_topic(topic).probe("read")
    with tw.run(publisher(topic), engine="local") as one, tw.run(flow, engine="local") as other:
        one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
        numbers = one.input("numbers")
        numbers.send([1])
        numbers.advance_to(3)
        other.probe("read").wait_until(3, timeout_s=DEADLINE_S)
        assert not other.probe("read").has_completed(3)
        numbers.close()
        other.wait(timeout_s=DEADLINE_S)


def test_the_job_that_reads_may_be_there_first(topic: str) -> None:
    """It waits for the topic."""
    flow = tw.Dataflow("second")
    flow.from_topic(topic, timeout_s=DEADLINE_S).capture("numbers")
    with tw.run(flow, engine="local") as other, tw.run(publisher(topic), engine="local") as one:
        one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
        with one.input("numbers") as numbers:
            numbers.send([1, 2])
        other.wait(timeout_s=DEADLINE_S)
        assert by_epoch(other, "numbers") == {0: Counter([1, 2])}


def test_times_of_any_domain(topic: str) -> None:
    """A dataflow of pairs reads a topic of pairs; one of integers says what is wrong."""
    pairs = tw.progress.ProductDomain(tw.progress.IntegerDomain(), tw.progress.IntegerDomain())
    second, third = tw.Dataflow("second", pairs), tw.Dataflow("third")
    second.from_topic(topic).capture("numbers")
    third.from_topic(topic).capture("numbers")
    with tw.run(publisher(topic, domain=pairs), engine="local") as one:
        with raises(tw.JobError), tw.run(third, engine="local") as other:
            other.wait(timeout_s=DEADLINE_S)
        with tw.run(second, engine="local") as other:
            one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
            numbers = one.input("numbers")
            numbers.send([1])
            numbers.advance_to((0, 1))
            numbers.send([2])
            numbers.close()
            other.wait(timeout_s=DEADLINE_S)
            assert by_epoch(other, "numbers") == {(0, 0): Counter([1]), (0, 1): Counter([2])}


def test_a_topic_that_fails_fails_the_job_that_reads_it(topic: str) -> None:
    """The error names the topic, and what went wrong there.

    Where the thread that reads the topic runs the step that fails, it meets the error itself.
    """
    first = tw.Dataflow("first")
    first.input("numbers").map(lambda n: 1 // n).publish(topic)
    second = tw.Dataflow("second")
    second.from_topic(topic).capture("numbers")
    with pytest.raises(tw.JobError, match=f"from_topic {topic}.*(the publisher failed|JobError)") as caught:
        fail_and_read(first, second, topic)
    assert "ZeroDivisionError" in str(caught.value)


def fail_and_read(first: tw.Dataflow, second: tw.Dataflow, topic: str) -> None:
    """Run both; the first fails at its first record."""
    with tw.run(second, engine="local") as other:
        with raises(tw.JobError), tw.run(first, engine="local") as one:
            one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
            one.input("numbers").send([0])
            one.input("numbers").close()
            one.wait(timeout_s=DEADLINE_S)
        other.wait(timeout_s=DEADLINE_S)


def test_the_job_that_reads_may_end_first(topic: str) -> None:
    """The other goes on as if nobody had ever subscribed."""
    second = tw.Dataflow("second")
    second.from_topic(topic).capture("numbers")
    with tw.run(publisher(topic), engine="local") as one:
        with tw.run(second, engine="local") as other:
            one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
            other.stop()
        with one.input("numbers") as numbers:
            numbers.send([1, 2, 3])
        one.wait(timeout_s=DEADLINE_S)


def test_a_job_goes_on_behind_the_end_of_a_topic(topic: str, tmp_path: Path) -> None:
    """It does not look for the topic again, which is gone."""

    def run() -> tw.types.Job:
        flow = tw.Dataflow("second")
        flow.from_topic(topic, timeout_s=0.1).probe("read").capture("numbers")
        flow.input("more").capture("more")
        return tw.run(flow, engine="local", snapshots=tw.Snapshots(tmp_path, every_s=1000))

    with tw.run(publisher(topic), engine="local") as one, run() as other:
        other.input("more").send([0])
        one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)  # a later one would receive the end alone
        with one.input("numbers") as numbers:
            numbers.send([1, 2])
        one.wait(timeout_s=DEADLINE_S)
        assert list(other.probe("read").advances(timeout_s=DEADLINE_S))
        other.stop(snapshot=True)
    with run() as again:
        again.input("more").close()
        again.wait(timeout_s=DEADLINE_S)
        assert by_epoch(again, "numbers") == {0: Counter([1, 2])}


def test_a_topic_that_does_not_come_fails_the_job(topic: str) -> None:
    """After the time that was given; the operator's name says which topic it is."""
    flow = tw.Dataflow("second")
    flow.from_topic(topic, timeout_s=0.1).capture("numbers")
    expected = pytest.raises(tw.JobError, match=f"no job published topic '{topic[:10]}")
    with expected as caught, tw.run(flow, engine="local") as job:
        job.wait(timeout_s=DEADLINE_S)
    assert f"from_topic {topic}" in str(caught.value)


def test_only_what_is_wanted_comes(topic: str) -> None:
    """``where`` is evaluated by the other job."""
    flow = tw.Dataflow("second")
    flow.from_topic(topic, where=lambda n: n % 2).capture("odd")
    with tw.run(publisher(topic), engine="local") as one, tw.run(flow, engine="local") as other:
        one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
        with one.input("numbers") as numbers:
            numbers.send(list(range(6)))
        other.wait(timeout_s=DEADLINE_S)
        assert by_epoch(other, "odd") == {0: Counter([1, 3, 5])}


def test_no_thread_is_left_behind(topic: str) -> None:
    """Neither when the topic has ended nor when the job is stopped before."""
    flow = tw.Dataflow("second")
    flow.from_topic(topic).capture("numbers")
    with tw.run(publisher(topic), engine="local") as one:
        with tw.run(flow, engine="local") as job:
            one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
            job.stop()
        one.stop()
    left = [thread for thread in threading.enumerate() if thread.name == "tidewheel-from-topic"]
    for thread in left:
        thread.join(DEADLINE_S)
    assert not any(thread.is_alive() for thread in left)


@pytest.mark.parametrize("name", ["", None, 3], ids=["empty", "none", "number"])
def test_what_cannot_be_the_name_of_a_topic_is_refused(name: Any) -> None:
    """When the dataflow is described."""
    with raises(tw.GraphError):
        tw.Dataflow("second").from_topic(name)


def test_records_that_are_not_what_was_expected_fail_the_job(topic: str) -> None:
    """At once where the topic says what it has, otherwise with the first batch."""
    flow = tw.Dataflow("second")
    flow.from_topic(topic, schema=str).capture("words")
    with tw.run(publisher(topic), engine="local") as one:
        numbers = one.input("numbers")
        with raises(tw.JobError), tw.run(flow, engine="local") as other:
            one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
            numbers.send([1])
            numbers.close()
            other.wait(timeout_s=DEADLINE_S)
        one.wait(timeout_s=DEADLINE_S)


@pytest.mark.parametrize("workers_after", [1, 3])
def test_what_a_job_misses_that_goes_on_from_a_snapshot_is_told(
    topic: str, workers_after: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By a warning with the times from which and until which; a job that begins anew has none.

    What the snapshot has comes once, also on another number of workers.
    """

    def reader(workers: int = 1) -> tw.types.Job:
        flow = tw.Dataflow("second")
        flow.from_topic(topic).probe("read").capture("numbers")
        return tw.run(flow, workers=workers, engine="local", snapshots=tw.Snapshots(tmp_path, every_s=1000))

    with tw.run(publisher(topic), engine="local") as one:
        numbers = one.input("numbers")
        with reader() as other:
            one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
            numbers.send([1])
            numbers.advance_to(3)
            other.probe("read").wait_until(2, timeout_s=DEADLINE_S)
            other.stop(snapshot=True)
        assert "misses" not in caplog.text
        numbers.send([2])
        numbers.advance_to(7)
        settle(one)
        with reader(workers_after) as other:
            one.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
            numbers.send([3])
            numbers.close()
            other.wait(timeout_s=DEADLINE_S)
            assert by_epoch(other, "numbers") == {0: Counter([1]), 7: Counter([3])}
    assert f"Of topic '{topic}' it misses what came since the snapshot, at time 3, and before it had" in caplog.text
    assert "subscribed again, at 7." in caplog.text
