"""The publish operator, with subscribers in the same process."""

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.harness import KINDS, LISTS, Feed, Kind, expected, feeds, operator_settings, send, settle
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.runtime.description.dataflow_description import description_of

SCHEMA = pa.schema({"n": pa.int64()})


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

    flow = publish(topic, lambda stream: stream.unary(build, name="hold"))
    with tw.run(flow, workers=2, engine="local") as job, tw.subscribe(topic) as subscription:
        send(job, "numbers", [(0, [0]), (0, [1])])
        with raises(tw.DeliveryError):
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
    with raises(tw.JobError), tw.run(publish(topic), engine="local"):
        stopped = tw.subscribe(topic)
    with raises(tw.DeliveryError):
        list(stopped.epochs())
    flow = publish(topic, lambda stream: stream.map(lambda number: 1 // number))
    job = tw.run(flow, engine="local")
    failed = tw.subscribe(topic)
    send(job, "numbers", [(0, [0])])
    with raises(tw.JobError):
        job.wait()
    with raises(tw.DeliveryError):
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
    with tw.run(publish(topic), engine="local") as job:
        with pytest.raises(tw.DeliveryError, match=f"topic '{topic}' is published by job 'test-"):
            tw.run(flow, engine="local")
        again = tw.Dataflow("third")
        again.input("numbers").publish(f"{topic}/own")
        tw.run(again, engine="local").stop()
        job.stop()
    tw.run(flow, engine="local").stop()


@operator_settings()
@given(feeds(), st.sampled_from(KINDS), st.integers(1, 3))
def test_a_merged_topic_has_what_all_workers_have(feed: Feed, kind: Kind, workers: int) -> None:
    """In one partition, each epoch whole once all workers are done with it, and the end when all have ended."""
    name = f"publish/{next(_NUMBERS)}"
    flow = tw.Dataflow("test")
    stream = flow.input("numbers").exchange(kind.number).publish(name, partition="merged")
    stream.publish(f"{name}/by worker")
    with (
        tw.run(flow, workers=workers, engine="local", paused=True) as job,
        tw.subscribe(name) as merged,
        tw.subscribe(f"{name}/by worker") as by_worker,
    ):
        job.start()
        send(job, "numbers", feed, kind)
        epochs = [(epoch.time, Counter(map(kind.number, epoch.records))) for epoch in merged.epochs()]
        assert {batch.partition for epoch in by_worker.epochs() for batch in epoch.batches} <= set(range(workers))
    assert epochs == sorted(expected(feed).items())


def test_a_merged_topic_keeps_its_capacity(topic: str) -> None:
    """So many bytes may wait for a subscriber, and no more."""
    flow = tw.Dataflow("test")
    flow.input("texts").publish(topic, partition="merged", capacity_bytes=1000)
    with tw.run(flow, workers=2, engine="local") as job, tw.subscribe(topic) as slow:
        for time in range(3):
            job.input("texts").send(["x" * 500])
            job.input("texts").advance_to(time + 1)
        settle(job)
        with raises(tw.DeliveryError):
            list(slow)
        job.stop()


def run_with_schema(topic: str, schema: Any, batches: list[Any], expects: Any = None) -> list[Any]:
    """Return the records that come of batches, one an epoch, published and subscribed to with schemas."""
    flow = tw.Dataflow("test")
    flow.input("in").publish(topic, schema=schema)
    with tw.run(flow, engine="local") as job, tw.subscribe(topic, schema=expects) as subscription:
        with job.input("in") as handle:
            for time, batch in enumerate(batches):
                handle.send(batch)
                handle.advance_to(time + 1)
        found = [epoch.records for epoch in subscription.epochs()]
        job.wait()
    return found


@pytest.mark.parametrize(
    ("schema", "batches", "expects"),
    [
        (int, [[1, 2], [True]], float),
        (tuple[str, int], [[("a", 1)]], None),
        (SCHEMA, [pa.table({"n": [1]})], SCHEMA),
        (SCHEMA, [pa.table({"n": [1]})], dict),
        (None, [[1], ["a"]], None),
        (None, [[1], [2]], int),
        (None, [pa.table({"n": [1]})], SCHEMA),
    ],
    ids=str,
)
def test_what_has_its_schema_arrives(topic: str, schema: Any, batches: list[Any], expects: Any) -> None:
    """Whether the publisher has said what it is, or the subscriber expects it, or both."""
    records = [batch.to_pylist() if isinstance(batch, pa.Table) else batch for batch in batches]
    assert run_with_schema(topic, schema, batches, expects) == records


@pytest.mark.parametrize(
    ("schema", "batch", "message"),
    [
        (int, [1, "two"], "came str: 'two', where int is expected"),
        (SCHEMA, [{"n": 1}], r"came a list, where \(n: int64\) is expected"),
        (SCHEMA, pa.table({"n": [1.5]}), r"came a table of \(n: double\), where \(n: int64\) is expected"),
    ],
    ids=str,
)
def test_what_has_another_schema_fails_the_job(topic: str, schema: Any, batch: Any, message: str) -> None:
    """The error names the topic, the time, what came and what was declared; so it does at the subscriber."""
    flow = tw.Dataflow("test")
    flow.input("in").publish(topic, schema=schema)
    job = tw.run(flow, engine="local")
    with tw.subscribe(topic) as subscription:
        job.input("in").advance_to(3)
        job.input("in").send(batch)
        found = f"topic '{topic}', partition 0: at time 3 {message}"
        with pytest.raises(tw.JobError, match=found) as caught:
            settle(job)
        assert (caught.value.operator, caught.value.worker) == (f"publish {topic}", 0)
        with pytest.raises(tw.errors.PublisherLost, match=found):
            list(subscription)


@pytest.mark.parametrize(
    ("schema", "expects", "message"),
    [
        (int, str, "has int, and its subscriber expects str"),
        (SCHEMA, int, r"has \(n: int64\), and its subscriber expects int"),
        (dict, SCHEMA, r"has dict, and its subscriber expects \(n: int64\)"),
    ],
    ids=str,
)
def test_who_expects_something_else_is_told_at_once(topic: str, schema: Any, expects: Any, message: str) -> None:
    """Before anything is published; the error names the topic, its job, what it has and what was expected."""
    flow = tw.Dataflow("test")
    flow.input("in").publish(topic, schema=schema)
    with tw.run(flow, engine="local") as job:
        with pytest.raises(tw.errors.SchemaMismatch, match=f"topic '{topic}' of job '{job.name}' {message}"):
            tw.subscribe(topic, schema=expects)
        with raises(tw.DeliveryError):
            job.topic(topic).wait_for_subscribers(1, 0)
        job.stop()


def test_of_a_topic_that_says_nothing_each_batch_is_checked(topic: str) -> None:
    """What does not fit is an error where it is looked at, for that subscriber alone; the others see it all."""
    flow = tw.Dataflow("test")
    flow.input("in").publish(topic)
    with (
        tw.run(flow, engine="local") as job,
        tw.subscribe(topic, schema=int) as strict,
        tw.subscribe(topic) as lenient,
    ):
        with job.input("in") as handle:
            for time, batch in enumerate([[1], ["two"], [3]]):
                handle.send(batch)
                handle.advance_to(time + 1)
        epochs = list(strict.epochs())
        assert [epochs[0].records, epochs[2].records] == [[1], [3]]
        with pytest.raises(
            tw.errors.SchemaMismatch, match=f"topic '{topic}', partition 0: at time 1 came str: 'two', where"
        ):
            _ = epochs[1].records
        assert [epoch.records for epoch in lenient.epochs()] == [[1], ["two"], [3]]


def test_a_schema_that_is_known_is_declared(topic: str) -> None:
    """So `topics` shows it, and another one is refused when the dataflow is described, which stays as it was."""
    flow = tw.Dataflow("test")
    rows = flow.input("rows", SCHEMA)
    size = description_of(flow).size
    with raises(tw.errors.SchemaMismatch):
        rows.publish(topic, schema=int)
    assert description_of(flow).size == size
    rows.publish(topic).publish(f"{topic}/rows", schema=dict).map(len).publish(f"{topic}/lengths")
    with tw.run(flow, engine="local") as job:
        schemas = {name: info.schema for name in LOCAL_CATALOG.names() if (info := LOCAL_CATALOG.lookup(name))}
        job.stop()
    found = [schemas[name] for name in (topic, f"{topic}/rows", f"{topic}/lengths")]
    assert [None if schema is None else schema.text for schema in found] == ["(n: int64)", "dict", None]


@pytest.mark.parametrize(
    "arguments",
    [
        {"schema": 3},
        {"partition": "one"},
        {"capacity_bytes": 0},
        {"capacity_bytes": 1.5},
        {"topic": "tidewheel/x"},
        {"topic": ""},
    ],
    ids=str,
)
def test_what_cannot_be_published_is_refused(arguments: dict[str, Any]) -> None:
    """When the dataflow is described, which stays as it was."""
    flow = tw.Dataflow("test")
    numbers = flow.input("numbers")
    size = description_of(flow).size
    with pytest.raises(tw.DeliveryError):
        numbers.publish(**{"topic": "publish/refused", **arguments})
    assert description_of(flow).size == size
    numbers.publish("publish/refused")
