"""Subscribers of a job that was stopped on purpose: they see whole epochs, and then the topic is over."""

import asyncio
from itertools import count
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.runtime.one_operator import settle
from tidewheel.pubsub.subscribers.subscription import Subscription

DEADLINE_S = 30.0
WORKERS = 2
OPEN = 3
"""The epoch that is open when the job is stopped; those before are whole."""
ROWS = 20


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


def flow_of(topic: str) -> tw.Dataflow:
    flow = tw.Dataflow("publishing")
    flow.input("numbers").exchange(lambda row: row["n"]).publish(topic)
    return flow


def feed_without_end(job: tw.types.Job) -> None:
    """Send whole epochs, each to both workers, and then some of one that stays open."""
    numbers = job.input("numbers")
    for epoch in range(OPEN + 1):
        numbers.advance_to(epoch)
        numbers.send([{"n": number} for number in range(ROWS)])
    settle(job)


def stopped(topic: str, **options: Any) -> Subscription:
    """Subscribe to a job that is stopped with an open epoch, before anything is read."""
    with tw.run(flow_of(topic), workers=WORKERS, engine="local") as job:
        subscription = tw.subscribe(topic, **options)
        feed_without_end(job)
        job.stop()
    return subscription


@pytest.mark.parametrize("slow", ["disconnect", "drop_epochs", "block"])
def test_epochs_end_after_the_last_whole_one(topic: str, slow: Any) -> None:
    """No epoch that was published whole is missing, none that was open is shown, and the frontier tells where."""
    with stopped(topic, slow=slow) as subscription:
        epochs = list(subscription.epochs(DEADLINE_S))
        assert [(epoch.time, len(epoch.records), len(epoch.batches)) for epoch in epochs] == [
            (epoch, ROWS, WORKERS) for epoch in range(OPEN)
        ]
        assert list(subscription.epochs(DEADLINE_S)) == []
        assert list(subscription.frontier) == [OPEN]


def test_events_end_without_the_end_of_the_topic(topic: str) -> None:
    """Who reads events can tell a topic that came to its end from one that was stopped."""
    with stopped(topic) as subscription:
        events = list(subscription)
    assert not any(isinstance(event, tw.types.End) for event in events)
    assert sum(isinstance(event, tw.types.Batch) for event in events) == WORKERS * (OPEN + 1)


def test_a_task_sees_the_same(topic: str) -> None:
    """With ``async for``, too."""

    async def read() -> list[int]:
        with stopped(topic) as subscription:
            return [epoch.time async for epoch in subscription.epochs(DEADLINE_S)]

    assert asyncio.run(read()) == list(range(OPEN))


def test_what_waits_for_an_epoch_that_will_not_come_is_told(topic: str) -> None:
    """A table until an epoch would be a promise, and what `poll` returns says nothing of an end: these raise."""
    with stopped(topic) as subscription:
        assert subscription.to_arrow(until=OPEN - 1, timeout_s=DEADLINE_S).num_rows == ROWS * OPEN
        with raises(tw.errors.PublisherLost):
            subscription.to_arrow(until=OPEN, timeout_s=DEADLINE_S)
        with raises(tw.errors.PublisherLost):
            subscription.poll()


def test_a_dataflow_that_reads_the_topic_fails(topic: str) -> None:
    """Its operators may have records of the open epoch; they must not take that for complete."""
    reading = tw.Dataflow("reading")
    reading.from_topic(topic).capture("numbers")
    with raises(tw.JobError):
        read_stopped(reading, topic)


def read_stopped(reading: tw.Dataflow, topic: str) -> None:
    with tw.run(flow_of(topic), workers=WORKERS, engine="local") as job, tw.run(reading, engine="local") as reader:
        job.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
        feed_without_end(job)
        job.stop()
        reader.wait(DEADLINE_S)


def test_a_job_that_completes_while_it_is_stopped_was_stopped(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers complete it at any moment; the end is one or the other, and not a failure."""
    asked = count()
    with tw.run(flow_of(topic), workers=WORKERS, engine="local") as job:
        subscription = tw.subscribe(topic)
        feed_without_end(job)
        with monkeypatch.context() as patch:
            patch.setattr(type(job), "is_complete", property(lambda _: next(asked) > 0))
            job.stop()
    with subscription:
        assert [epoch.time for epoch in subscription.epochs(DEADLINE_S)] == list(range(OPEN))


def test_a_block_that_is_left_too_early_is_no_stop(topic: str) -> None:
    """A program that forgets to close an input gets an error, and the subscriber hears of it, as of a failure."""
    job = tw.run(flow_of(topic), workers=WORKERS, engine="local")
    subscription = tw.subscribe(topic)
    feed_without_end(job)
    with raises(tw.JobError), job:
        pass
    with subscription, raises(tw.errors.PublisherLost):
        list(subscription.epochs(DEADLINE_S))


def test_a_dataflow_that_was_added_is_stopped_with_its_job(topic: str) -> None:
    """Whose subscribers see the same."""
    flow = tw.Dataflow("first")
    flow.input("unused").capture("unused")
    with tw.run(flow, workers=WORKERS, engine="local") as job:
        added = job.add(flow_of(topic))
        subscription = tw.subscribe(topic)
        feed_without_end(added)
        job.stop()
    with subscription:
        assert [epoch.time for epoch in subscription.epochs(DEADLINE_S)] == list(range(OPEN))
