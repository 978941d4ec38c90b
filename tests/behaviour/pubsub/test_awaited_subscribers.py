"""Topics that wait for their first subscribers, in a job of this process."""

import logging
from typing import Any

import pytest

import tidewheel as tw
from tidewheel.progress import IntegerDomain, ProtocolError
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.wire import DataMessage
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.publishers import local_publisher

DEADLINE_S = 20.0
EPOCHS = 4


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


def publishing(topic: str, **options: Any) -> tw.Dataflow:
    """A dataflow whose epochs have one record each, so that of two workers one has some epochs without records."""
    flow = tw.Dataflow(f"publishes {topic}")
    flow.input("numbers").probe("sent").publish(topic, **options)
    return flow


def send_all(job: tw.types.Job) -> None:
    """Send all epochs, and let the job work as far as it can."""
    numbers = job.input("numbers")
    for epoch in range(EPOCHS):
        numbers.send([epoch])
        numbers.advance_to(epoch + 1)
    numbers.close()
    job.probe("sent").wait_until(EPOCHS, timeout_s=DEADLINE_S)


def read_all(subscription: tw.types.Subscription) -> list[tuple[int, list[int]]]:
    return [(epoch.time, epoch.records) for epoch in subscription.epochs(timeout_s=DEADLINE_S)]


@pytest.mark.parametrize("partition", ["worker", "merged"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_subscriber_that_comes_later_gets_the_first_epochs(topic: str, workers: int, partition: Any) -> None:
    """All was sent before it came; without ``wait_for`` all of that is lost to it."""
    with tw.run(publishing(topic, wait_for=1, partition=partition), workers=workers, engine="local") as job:
        send_all(job)
        with tw.subscribe(topic) as subscription:
            assert read_all(subscription) == [(epoch, [epoch]) for epoch in range(EPOCHS)]
        job.wait(timeout_s=DEADLINE_S)


def test_a_partition_that_ends_without_records_takes_nothing_away(topic: str) -> None:
    """One worker has all records; that the other has ended before the subscriber came is not told before, either."""
    with tw.run(publishing(topic, wait_for=1), workers=2, engine="local") as job:
        job.input("numbers").send([1])
        job.input("numbers").close()
        job.probe("sent").wait_until(EPOCHS, timeout_s=DEADLINE_S)
        with tw.subscribe(topic) as subscription:
            assert read_all(subscription) == [(0, [1])]
        job.stop()


def test_all_that_are_awaited_get_the_first_epochs(topic: str) -> None:
    """The first of two sees nothing before the second is there."""
    with tw.run(publishing(topic, wait_for=2), engine="local") as job, tw.subscribe(topic) as first:
        send_all(job)
        with pytest.raises(TimeoutError):
            next(first.epochs(timeout_s=0.05))
        with tw.subscribe(topic) as second:
            assert read_all(first) == read_all(second) == [(epoch, [epoch]) for epoch in range(EPOCHS)]
        job.stop()


def test_a_log_line_says_what_it_waits_for(
    topic: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the topic and how to go on, and comes again; the job can be left, and the topic is gone."""
    monkeypatch.setattr(local_publisher, "AWAITED_S", 0.05)
    monkeypatch.setattr(local_publisher, "AWAITED_AGAIN_S", 0.05)
    with tw.run(publishing(topic, wait_for=1), engine="local") as job:
        send_all(job)
        with pytest.raises(TimeoutError):
            job.wait(timeout_s=0.5)
        job.stop()
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    line = (
        f"topic {topic!r} publishes nothing yet: publish(..., wait_for=1) waits for its first subscriber. Call "
        f"tidewheel.subscribe({topic!r}), or end the job"
    )
    assert said.count(line) > 1
    assert LOCAL_CATALOG.lookup(topic) is None


@pytest.mark.parametrize("wrong", [-1, True, 1.5, "one"])
def test_it_is_a_whole_number(topic: str, wrong: Any) -> None:
    """Anything else is refused where it is said."""
    with pytest.raises(tw.GraphError, match=f"publish '{topic[:15]}.*: wait_for is a whole number, 0 or more, not "):
        publishing(topic, wait_for=wrong)


def is_held(publisher: Publisher) -> bool:
    return publisher.is_held


def test_a_publisher_is_held_until_they_have_come_once() -> None:
    """After that nobody is awaited, though all of them leave before the first event; nor after a failure."""
    publisher = Publisher(IntegerDomain(), awaited=2)
    publisher.subscribe("one")
    assert is_held(publisher)
    assert publisher.overdue_in_s(0.0) is None
    publisher.subscribe("two", DeliveryOptions())
    publisher.unsubscribe("one")  # before the first event: the worker was told that it may go on
    assert not is_held(publisher)
    publisher.feed([DataMessage(0, b"", "pickle", 1)])
    publisher.unsubscribe("two")
    assert not is_held(publisher)
    publisher.subscribe("two")
    failed = Publisher(IntegerDomain(), awaited=2)
    failed.fail("the job was stopped")
    assert not is_held(failed)
    with pytest.raises(ProtocolError):
        publisher.subscribe("two")
