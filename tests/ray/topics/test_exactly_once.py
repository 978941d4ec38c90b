"""Topics with exactly-once delivery on a real Ray cluster: jobs, durable subscriptions, and publishers that die."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

import tidewheel as tw
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.log.errors import LogMismatch

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

DEADLINE_S = 60.0


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


@contextmanager
def publishing(topic: str, log: Path, workers: int = 2, **options: Any) -> Iterator[Any]:
    """A job that publishes its input."""
    flow = tw.Dataflow(f"publishes {topic}")
    flow.input("numbers").publish(topic, log=tw.Log(log), **options).probe("published")
    with tw.run(flow, workers=workers) as job:
        yield job
        job.stop()


def send(numbers: Any, epochs: range) -> None:
    """Send epochs of three records each."""
    for epoch in epochs:
        numbers.send([epoch * 10 + n for n in range(3)])
        numbers.advance_to(epoch + 1)


def records(epoch: int) -> list[int]:
    return [epoch * 10 + n for n in range(3)]


def read(subscription: tw.types.Subscription, count: int) -> list[tuple[int, list[int]]]:
    """Return the next epochs."""
    epochs = subscription.epochs(timeout_s=DEADLINE_S)
    return [(epoch.time, sorted(epoch.records)) for _, epoch in zip(range(count), epochs, strict=False)]


def expected(epochs: range) -> list[tuple[int, list[int]]]:
    return [(epoch, records(epoch)) for epoch in epochs]


def publishers(topic: str) -> list[Any]:
    """Return the handles of a topic's publishers."""
    from tidewheel.pubsub.catalog.catalog_actor import ask_catalog

    return list(ask_catalog("lookup", topic, DEADLINE_S).partitions)


def kill(actor: Any) -> None:
    """Kill the process of an actor as the system would."""
    import ray

    os.kill(ray.get(actor.__ray_call__.remote(lambda _: os.getpid()), timeout=DEADLINE_S), signal.SIGKILL)


def test_a_durable_subscription_goes_on_where_it_was(topic: str, tmp_path: Path) -> None:
    """By its name, with what it has not acknowledged, and to the end of the topic; others begin where they say."""
    with publishing(topic, tmp_path) as job, job.input("numbers") as numbers:
        with tw.subscribe(topic, durable=tw.Durable("billing", ack="manual")) as billing:
            send(numbers, range(5))
            for epoch in billing.epochs(timeout_s=DEADLINE_S):
                if epoch.time < 3:
                    billing.acknowledge(epoch)
                if epoch.time == 4:
                    break
        with (
            tw.subscribe(topic, durable=tw.Durable("billing")) as billing,
            tw.subscribe(topic, start="earliest") as all_of_it,
        ):
            assert read(billing, 2) == expected(range(3, 5))
            assert read(all_of_it, 5) == expected(range(5))
        with tw.subscribe(topic, durable=tw.Durable("billing")) as billing, tw.subscribe(topic) as live:
            send(numbers, range(5, 7))
            assert read(live, 2) == expected(range(5, 7))
            numbers.close()
            assert read(billing, 9) == expected(range(5, 7))
        job.wait(timeout_s=DEADLINE_S)


def test_total_order_is_the_same_for_everybody(topic: str, tmp_path: Path) -> None:
    """Whoever subscribes in total order sees the batches of all partitions in the order of their ticks."""
    with publishing(topic, tmp_path) as job:
        with job.input("numbers") as numbers:
            send(numbers, range(20))
        seen = []
        for _ in range(2):
            with tw.subscribe(topic, start="earliest", order="total") as subscription:
                seen.append(
                    [(event.partition, event.number) for event in subscription if isinstance(event, tw.types.Batch)]
                )
        job.wait(timeout_s=DEADLINE_S)
    assert seen[0] == seen[1]
    assert [number for _, number in seen[0]] == sorted(number for _, number in seen[0])
    assert len(seen[0]) >= 20


@pytest.mark.long
def test_total_order_has_the_last_messages_of_a_job(topic: str, tmp_path: Path) -> None:
    """Also where a publisher was killed again and again, so that its last messages are far ahead of the clock."""
    with publishing(topic, tmp_path) as job, tw.subscribe(topic, start="earliest", order="total") as subscription:
        with job.input("numbers") as numbers:
            for epoch in range(4):
                send(numbers, range(epoch, epoch + 1))
                job.topic(topic).wait_until(epoch + 1, timeout_s=DEADLINE_S)
                kill(publishers(topic)[0])
            send(numbers, range(4, 6))
        job.wait(timeout_s=DEADLINE_S)
        batches = [event.records for event in subscription if isinstance(event, tw.types.Batch)]
    assert sorted(record for batch in batches for record in batch) == [n for epoch in range(6) for n in records(epoch)]


def test_a_publisher_that_is_killed_comes_back_with_all_that_it_had(topic: str, tmp_path: Path) -> None:
    """Neither the job nor its subscribers notice more than that it takes a moment."""
    with publishing(topic, tmp_path) as job, job.input("numbers") as numbers:
        with (
            tw.subscribe(topic, durable=tw.Durable("billing")) as billing,
            tw.subscribe(topic, start="earliest") as unnamed,
        ):
            send(numbers, range(3))
            assert read(billing, 3) == expected(range(3))
            for publisher in publishers(topic):
                kill(publisher)
            send(numbers, range(3, 6))
            numbers.close()
            assert read(billing, 9) == expected(range(3, 6))
            assert read(unnamed, 9) == expected(range(6))
        job.wait(timeout_s=DEADLINE_S)


def test_a_job_that_starts_again_publishes_nothing_twice(topic: str, tmp_path: Path) -> None:
    """What it sends again is left out; what is new follows what is there, and names go on."""
    with publishing(topic, tmp_path) as job:
        with tw.subscribe(topic, durable=tw.Durable("billing")) as billing:
            numbers = job.input("numbers")
            send(numbers, range(4))
            assert read(billing, 2) == expected(range(2))
        job.stop()
    with publishing(topic, tmp_path) as job:
        with (
            tw.subscribe(topic, durable=tw.Durable("billing")) as billing,
            tw.subscribe(topic, start="earliest") as all_of_it,
        ):
            with job.input("numbers") as numbers:
                send(numbers, range(6))
            assert read(billing, 9) == expected(range(2, 6))
            assert read(all_of_it, 9) == expected(range(6))
        job.wait(timeout_s=DEADLINE_S)


def test_a_log_of_another_job_is_an_error_before_anything_runs(topic: str, tmp_path: Path) -> None:
    """As one of several partitions where all records go into one; nothing is left in the catalog."""
    with publishing(topic, tmp_path, workers=2) as job:
        job.stop()
    with pytest.raises(LogMismatch, match="a log keeps"), publishing(topic, tmp_path, partition="merged"):
        pass
    assert topic not in [found.name for found in tw.topics()]


def test_a_job_that_begins_again_may_send_an_open_epoch_differently(topic: str, tmp_path: Path) -> None:
    """Readers of events are told that what it had sent of that epoch is void; the complete epoch stays."""
    with publishing(topic, tmp_path, workers=1) as job:
        numbers = job.input("numbers")
        numbers.send([1])
        numbers.advance_to(1)
        job.probe("published").wait_until(1, timeout_s=DEADLINE_S)
        numbers.send([2])
        with tw.subscribe(topic, start="earliest") as subscription:
            batches = (event.records for event in subscription if isinstance(event, tw.types.Batch))
            assert [next(batches), next(batches)] == [[1], [2]]
        job.stop()
    stands: list[tw.types.Batch] = []
    with (
        publishing(topic, tmp_path, workers=1) as job,
        tw.subscribe(topic, start="earliest") as subscription,
        job.input("numbers") as numbers,
    ):
        numbers.send([1])
        numbers.advance_to(1)
        numbers.send([3])
        numbers.close()
        for event in subscription:
            if isinstance(event, tw.types.Batch):
                stands.append(event)
            elif isinstance(event, tw.types.RolledBack):
                assert [batch.records for batch in stands] == [[1], [2]]
                stands = [batch for batch in stands if not event.voids(batch)]
        job.wait(timeout_s=DEADLINE_S)
    assert [batch.records for batch in stands] == [[1], [3]]


def test_subscribers_of_a_job_that_fails_are_told(topic: str, tmp_path: Path) -> None:
    """Once they have read what it had published; the name can go on with the job's next life."""
    flow = tw.Dataflow("fails")
    flow.input("numbers").map(lambda n: 1 // n).publish(topic, log=tw.Log(tmp_path))
    with (
        pytest.raises(tw.TidewheelError, match="division"),
        tw.run(flow) as job,
        tw.subscribe(topic, durable=tw.Durable("billing")) as billing,
    ):
        fail(job, billing)


def fail(job: Any, billing: tw.types.Subscription) -> None:
    """Publish an epoch, read it, and have the job fail in the next."""
    numbers = job.input("numbers")
    numbers.send([1])
    numbers.advance_to(1)
    assert read(billing, 1) == [(0, [1])]
    numbers.send([0])
    numbers.advance_to(2)
    with pytest.raises(PublisherLost, match="division"):
        read(billing, 1)
    job.wait(timeout_s=DEADLINE_S)


@pytest.mark.long
def test_what_was_acknowledged_when_a_job_is_stopped_stays_so(topic: str, tmp_path: Path) -> None:
    """Though the subscriptions are closed after that, of which one acknowledges by itself and the other by hand."""
    names: dict[str, Literal["auto", "manual"]] = {"billing": "auto", "audit": "manual"}
    with publishing(topic, tmp_path) as job, ExitStack() as stack:
        subscriptions = [
            stack.enter_context(tw.subscribe(topic, durable=tw.Durable(name, ack=ack))) for name, ack in names.items()
        ]
        send(job.input("numbers"), range(3))
        for subscription, ack in zip(subscriptions, names.values(), strict=True):
            for epoch in subscription.epochs(timeout_s=DEADLINE_S):
                if ack == "manual":
                    subscription.acknowledge(epoch)
                if epoch.time == 2:
                    break
        job.stop()
    with publishing(topic, tmp_path) as job:
        with ExitStack() as stack:
            subscriptions = [stack.enter_context(tw.subscribe(topic, durable=tw.Durable(name))) for name in names]
            with job.input("numbers") as numbers:
                send(numbers, range(5))
            assert [read(subscription, 9) for subscription in subscriptions] == [expected(range(3, 5))] * 2
        job.wait(timeout_s=DEADLINE_S)


def each_epoch(subscription: tw.types.Subscription, *, acknowledges: bool) -> Iterator[tw.types.Epoch]:
    for epoch in subscription.epochs(timeout_s=DEADLINE_S):
        if acknowledges:
            subscription.acknowledge(epoch)
        yield epoch


@pytest.mark.long
@pytest.mark.parametrize("acknowledges", [False, True])
def test_a_job_gets_the_log_though_another_one_s_last_epochs_are_not_read(
    topic: str, acknowledges: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A subscriber that reads them later is told to subscribe again, and then has them, though it acknowledges.

    The job is told that the topic has ended.
    """
    with publishing(topic, tmp_path) as job:
        billing = tw.subscribe(topic, durable=tw.Durable("billing", ack="manual"))
        with job.input("numbers") as numbers:
            send(numbers, range(3))
        job.wait(timeout_s=DEADLINE_S)
    with publishing(topic, tmp_path) as job:
        had: list[tw.types.Epoch] = []
        with pytest.raises(PublisherLost, match="another job goes on with its log"):
            had.extend(each_epoch(billing, acknowledges=acknowledges))
        # Where a message has to be asked for again, there is no publisher left to ask.
        assert [epoch.time for epoch in had] == list(range(len(had)))
        billing.close()
        with job.input("numbers") as numbers:
            send(numbers, range(4))
        with tw.subscribe(topic, durable=tw.Durable("billing")) as billing:
            assert read(billing, 9) == expected(range(3))
        job.wait(timeout_s=DEADLINE_S)
    assert caplog.text.count("has the topic to its end already") == 1


def test_another_dataflow_reads_it(topic: str, tmp_path: Path) -> None:
    """It never has to hold back the one that publishes."""
    second = tw.Dataflow("reads")
    second.from_topic(topic).publish(f"{topic} again", log=tw.Log(tmp_path), partition="merged")
    with publishing(topic, tmp_path, workers=1) as job, tw.run(second, workers=2) as other:
        job.topic(topic).wait_for_subscribers(1, timeout_s=DEADLINE_S)
        with tw.subscribe(f"{topic} again") as again:
            with job.input("numbers") as numbers:
                send(numbers, range(4))
            assert read(again, 9) == expected(range(4))
        other.wait(timeout_s=DEADLINE_S)
        job.wait(timeout_s=DEADLINE_S)


def test_the_newest_reader_has_the_name(topic: str, tmp_path: Path) -> None:
    """So that a subscriber which was killed can start again at once; one that was not gets an error."""
    with publishing(topic, tmp_path, workers=1) as job:
        numbers = job.input("numbers")
        with (
            tw.subscribe(topic, durable=tw.Durable("billing")) as old,
            tw.subscribe(topic, durable=tw.Durable("billing")) as new,
        ):
            send(numbers, range(2))
            assert read(new, 2) == expected(range(2))
            with pytest.raises(DeliveryError, match=r"another reader .*'billing'"):
                read(old, 3)
        job.stop()


def test_best_effort_topics_have_no_names(topic: str) -> None:
    """And the local engine no such publishers: both say so."""
    flow = tw.Dataflow("plain")
    flow.input("numbers").publish(topic)
    with tw.run(flow) as job:
        with pytest.raises(DeliveryError, match="is best effort"):
            tw.subscribe(topic, durable=tw.Durable("billing"))
        job.stop()


def test_conditions_are_evaluated_by_the_publisher(topic: str, tmp_path: Path) -> None:
    """Only what meets them is sent; one that raises ends the subscription, and no other."""
    with publishing(topic, tmp_path, workers=1) as job:
        numbers = job.input("numbers")
        with (
            tw.subscribe(topic, where=lambda n: n % 10 == 1) as some,
            tw.subscribe(topic, where=lambda n: 1 // (n - 11)) as broken,
        ):
            send(numbers, range(3))
            assert read(some, 3) == [(0, [1]), (1, [11]), (2, [21])]
            with pytest.raises(DeliveryError, match="ZeroDivisionError"):
                read(broken, 3)
        job.stop()
