"""The publish operator, with subscribers in the same process."""

import uuid
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.unit.operators.harness import KINDS, LISTS, Feed, Kind, expected, feeds, operator_settings, send, settle
from tests.unit.operators.operator_case import OperatorCase, each_epoch

CASES = [
    OperatorCase("publish", lambda stream: stream.publish(f"case of publish/{uuid.uuid4().hex}"), each_epoch(list)),
]

_NUMBERS = count()


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"publish/{next(_NUMBERS)}"


def publish(topic: str, describe: Callable[[tw.Stream[Any]], tw.Stream[Any]] = lambda stream: stream) -> tw.Dataflow:
    """Return a dataflow that publishes what it is fed."""
    flow = tw.Dataflow("test")
    describe(flow.input("numbers")).publish(topic)
    return flow


@operator_settings()
@given(feeds(), st.sampled_from(KINDS), st.integers(1, 3))
def test_a_subscriber_gets_every_epoch_whole_and_in_order(feed: Feed, kind: Kind, workers: int) -> None:
    """Who is there from the start gets each epoch once, complete over all workers, none before an earlier one."""
    name = f"publish/{next(_NUMBERS)}"
    flow = publish(name, lambda stream: stream.exchange(kind.number))
    with tw.run(flow, workers=workers, engine="local", paused=True) as job, tw.subscribe(name) as subscription:
        job.start()
        send(job, "numbers", feed, kind)
        epochs = [(epoch.time, Counter(map(kind.number, epoch.records))) for epoch in subscription.epochs()]
    assert epochs == sorted(expected(feed).items())


def test_publishing_returns_the_stream(topic: str) -> None:
    """A stream may be published, captured and read on."""
    flow = tw.Dataflow("test")
    stream = flow.input("numbers")
    assert stream.publish(topic) is stream
    stream.capture("results")
    with tw.run(flow, engine="local") as job:
        send(job, "numbers", [(0, [1])])
        job.wait()
        assert job.captured("results")[0].batch == [1]


def test_a_late_subscriber_sees_whole_epochs_from_then_on(topic: str) -> None:
    """What was complete is gone for it, and so is an epoch of which it may have missed a part."""
    with tw.run(publish(topic), workers=2, engine="local") as job:
        numbers = job.input("numbers")
        numbers.send([1])
        numbers.advance_to(1)
        numbers.send([2])
        settle(job)
        with tw.subscribe(topic) as late:
            numbers.send([3])
            numbers.advance_to(2)
            numbers.send([4])
            numbers.send([5])
            numbers.close()
            assert [(epoch.time, sorted(epoch.records)) for epoch in late.epochs()] == [(2, [4, 5])]


def test_an_epoch_waits_for_the_slower_partition(topic: str) -> None:
    """With two partitions, one of which has finished an epoch, the epoch comes when the other has, with both parts."""
    held: list[tw.TimestampToken] = []

    def build(context: tw.OperatorContext) -> Any:
        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            for token, batch in input:
                if context.worker == 1:
                    held.append(token.retain())
                output.send(token, batch)

        return schedule

    flow = publish(topic, lambda stream: stream.unary("hold", build))
    with tw.run(flow, workers=2, engine="local") as job, tw.subscribe(topic) as subscription:
        send(job, "numbers", [(0, [0]), (0, [1])])
        with pytest.raises(tw.DeliveryError, match="is idle"):
            next(subscription.epochs())
        held.pop().discard()
        assert [(epoch.time, sorted(epoch.records)) for epoch in subscription.epochs()] == [(0, [0, 1])]


def test_times_in_a_loop_can_be_published(topic: str) -> None:
    """A topic may have times (t, round); each comes as an epoch of its own, an earlier one never after a later."""

    def body(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        numbers.publish(topic)
        again = numbers.filter(lambda n: n > 0).map(lambda n: n - 1)
        return again, numbers.filter(lambda n: n == 0)

    flow = tw.Dataflow("test")
    flow.input("numbers").iterate(body)
    with tw.run(flow, workers=2, engine="local", paused=True) as job, tw.subscribe(topic) as subscription:
        job.start()
        send(job, "numbers", [(0, [2]), (1, [1, 1])])
        epochs = [(epoch.time, epoch.records) for epoch in subscription.epochs()]
    assert sorted(epochs) == [((0, 0), [2]), ((0, 1), [1]), ((0, 2), [0]), ((1, 0), [1, 1]), ((1, 1), [0, 0])]
    order = [time for time, _ in epochs]
    assert all(
        not (later[0] <= earlier[0] and later[1] <= earlier[1])
        for index, earlier in enumerate(order)
        for later in order[index + 1 :]
    )


def test_arrow_arrives_as_arrow(topic: str) -> None:
    """A table is a table again at the subscriber, and not the publisher's object."""
    with tw.run(publish(topic), engine="local") as job, tw.subscribe(topic) as subscription:
        table = pa.table({"n": [1, 2]})
        job.input("numbers").send(table)
        job.input("numbers").close()
        [epoch] = subscription.epochs()
        assert epoch.to_arrow() == table


def test_a_topic_ends_with_its_job(topic: str) -> None:
    """A job that completes ends its topic; one that is stopped early or fails says so to the subscriber."""
    with tw.run(publish(topic), engine="local") as job:
        ended = tw.subscribe(topic)
        send(job, "numbers", [(0, [1])])
        job.wait()
    assert [epoch.records for epoch in ended.epochs()] == [[1]]
    with tw.run(publish(topic), engine="local"):
        stopped = tw.subscribe(topic)
    with pytest.raises(tw.DeliveryError, match="was stopped"):
        list(stopped.epochs())
    flow = publish(topic, lambda stream: stream.map(lambda number: 1 // number))
    job = tw.run(flow, engine="local")
    failed = tw.subscribe(topic)
    send(job, "numbers", [(0, [0])])
    with pytest.raises(tw.JobError, match="ZeroDivisionError"):
        job.wait()
    with pytest.raises(tw.DeliveryError, match="operator 'map' failed on worker 0 at time 0: ZeroDivisionError"):
        list(failed.epochs())


def test_one_stream_under_several_names(topic: str) -> None:
    """Each topic is complete by itself, and a topic may be read by several at once."""
    flow = tw.Dataflow("test")
    flow.input("numbers").publish(topic).map(lambda number: -number).publish(f"{topic}/negative")
    with tw.run(flow, engine="local") as job:
        names = [topic, topic, f"{topic}/negative"]
        subscriptions = [tw.subscribe(name) for name in names]
        send(job, "numbers", [(0, [1]), (1, [2])], LISTS)
        found = [[epoch.records for epoch in subscription.epochs()] for subscription in subscriptions]
    assert found == [[[1], [2]], [[1], [2]], [[-1], [-2]]]


def test_a_topic_that_a_living_job_publishes_is_taken(topic: str) -> None:
    """The second job does not start, and leaves nothing of its own behind; the name is free when the first ends."""
    flow = tw.Dataflow("second")
    flow.input("numbers").publish(f"{topic}/own").publish(topic)
    with tw.run(publish(topic), engine="local"):
        with pytest.raises(tw.DeliveryError, match=f"topic '{topic}' is published by job 'test-"):
            tw.run(flow, engine="local")
        again = tw.Dataflow("third")
        again.input("numbers").publish(f"{topic}/own")
        tw.run(again, engine="local").stop()
    tw.run(flow, engine="local").stop()
