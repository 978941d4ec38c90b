"""Topics of local jobs whose subscribers hold them back: nothing is lost, sources wait, and nobody hangs."""

import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

import tidewheel as tw
from tests.kit.messages import raises
from tests.kit.operators.lazy_source import LazySource
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.protocol.publisher_statistics import PublisherStatistics

KIB = 1 << 10
SMALL = tw.RuntimeConfig(bytes_in_flight=64 * KIB)
CAPACITY = 20 * KIB
RECORD = "x" * 1000
DEADLINE_S = 30.0
LIMIT_S = 0.3

_NUMBERS = count()


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"slow/{next(_NUMBERS)}"


class Counting(LazySource):
    """A source of one record of 1 kB an epoch, which notices how far it was read."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.was_read = 0

    def batches(self, partition: int) -> Iterator[tuple[int, list[str]]]:
        for epoch in range(self.epochs):
            self.was_read += 1
            yield epoch, [f"{epoch:05}{RECORD}"]


def publishing(source: Any, topic: str, **options: Any) -> tw.Dataflow:
    flow = tw.Dataflow("slow")
    flow.source("records", source).publish(topic, capacity_bytes=CAPACITY, **options)
    return flow


def statistics(topic: str) -> PublisherStatistics:
    info = LOCAL_CATALOG.lookup(topic)
    assert info is not None
    found: PublisherStatistics = info.partitions[0].publisher.statistics()
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_a_source_waits_for_a_subscriber_that_reads_slowly(topic: str, workers: int) -> None:
    """In the same thread: the job goes on as it reads, and the source is ahead by no more than the limits."""
    source = Counting(1000)
    ahead, most_waiting = [], 0
    with (
        tw.run(publishing(source, topic, partition="merged"), engine="local", workers=workers, config=SMALL) as job,
        tw.subscribe(topic, slow="block") as subscription,
    ):
        for read, epoch in enumerate(subscription.epochs(timeout_s=DEADLINE_S)):
            assert (epoch.time, epoch.records[0][:5]) == (read, f"{read:05}")
            ahead.append(source.was_read - read)
            if read % 50 == 0:  # it does something else, and the job runs meanwhile as far as it can
                while job.run_round():  # type: ignore[attr-defined]
                    pass
                most_waiting = max(most_waiting, statistics(topic).lag_bytes)
        job.wait(timeout_s=DEADLINE_S)
    assert len(ahead) == 1000
    assert 20 < max(ahead) < 200 * workers
    assert CAPACITY < most_waiting < 2 * CAPACITY


@pytest.mark.parametrize("slow", ["disconnect", "drop_epochs"])
def test_no_source_waits_for_others(topic: str, slow: Any) -> None:
    """Who did not ask to be waited for is not, however little it reads."""
    source = Counting(300)
    with tw.run(publishing(source, topic), engine="local", config=SMALL) as job, tw.subscribe(topic, slow=slow):
        job.wait(timeout_s=DEADLINE_S)
    assert source.was_read == 300


def test_one_that_never_reads_is_cut_off_and_the_job_completes(topic: str) -> None:
    """Though the job is waited for in the very thread that would have to read; the error says what happened."""
    source = Counting(300)
    began_s = time.monotonic()
    with (
        tw.run(publishing(source, topic), engine="local", config=SMALL) as job,
        tw.subscribe(topic, slow="block", block_limit_s=LIMIT_S) as subscription,
    ):
        job.wait(timeout_s=DEADLINE_S)
        assert LIMIT_S <= time.monotonic() - began_s < DEADLINE_S / 2
        assert source.was_read == 300
        with raises(tw.DeliveryError):
            list(subscription)


def test_what_fits_holds_nobody(topic: str) -> None:
    """A job of which all fits into the capacity completes at once, and the subscriber reads afterwards."""
    with (
        tw.run(publishing(Counting(10), topic), engine="local", config=SMALL) as job,
        tw.subscribe(topic, slow="block", block_limit_s=3600.0) as subscription,
    ):
        job.wait(timeout_s=DEADLINE_S)
        assert [epoch.time for epoch in subscription.epochs()] == list(range(10))


def test_another_one_in_the_same_thread_waits_for_the_limit(topic: str) -> None:
    """And then gets everything: nobody could have read for the other meanwhile."""
    with (
        tw.run(publishing(Counting(100), topic), engine="local", config=SMALL),
        tw.subscribe(topic, slow="block", block_limit_s=LIMIT_S) as unread,
        tw.subscribe(topic, slow="block") as read,
    ):
        assert [epoch.time for epoch in read.epochs(timeout_s=DEADLINE_S)] == list(range(100))
        with raises(tw.DeliveryError):
            list(unread)


def test_a_slow_one_in_another_thread_holds_a_job_that_is_waited_for(topic: str) -> None:
    """`Job.wait` goes on as that reads, whatever the limit: it takes something all the time."""
    seen: list[int] = []

    def read(subscription: tw.types.Subscription) -> None:
        pause = threading.Event()
        for epoch in subscription.epochs(timeout_s=DEADLINE_S):
            seen.append(epoch.time)
            pause.wait(0.002)

    with (
        tw.run(publishing(Counting(400), topic), engine="local", config=SMALL) as job,
        tw.subscribe(topic, slow="block", block_limit_s=LIMIT_S) as subscription,
    ):
        thread = threading.Thread(target=read, args=[subscription])
        thread.start()
        job.wait(timeout_s=DEADLINE_S)
        thread.join(DEADLINE_S)
    assert seen == list(range(400))


def test_a_job_that_is_held_back_can_be_stopped(topic: str) -> None:
    """At once; what was sent stays, and then the topic is over."""
    began_s = time.monotonic()
    with (
        tw.run(publishing(Counting(300), topic), engine="local", config=SMALL) as job,
        tw.subscribe(topic, slow="block", block_limit_s=3600.0) as subscription,
    ):
        while not statistics(topic).holders:
            job.run_round()  # type: ignore[attr-defined]
        job.stop()
        assert time.monotonic() - began_s < DEADLINE_S / 2
        epochs = subscription.epochs()
        assert [next(epochs).time for _ in range(10)] == list(range(10))
        rest = [epoch.time for epoch in epochs]
        assert rest == list(range(10, 10 + len(rest)))
        assert list(subscription.frontier) == [10 + len(rest)]


def test_one_that_leaves_lets_the_job_go_on(topic: str) -> None:
    """At once, though its limit is far away."""
    source = Counting(300)
    with tw.run(publishing(source, topic), engine="local", config=SMALL) as job:
        with tw.subscribe(topic, slow="block", block_limit_s=3600.0) as subscription:
            assert next(subscription.epochs()).time == 0
            while not statistics(topic).holders:
                job.run_round()  # type: ignore[attr-defined]
        job.wait(timeout_s=DEADLINE_S)
    assert source.was_read == 300


def test_frontiers_do_not_pile_up_while_it_is_held_back(topic: str) -> None:
    """Epochs without data pass; who reads then hears of one move."""
    flow = tw.Dataflow("frontiers")
    flow.input("records").publish(topic, capacity_bytes=CAPACITY)
    with (
        tw.run(flow, engine="local") as job,
        tw.subscribe(topic, slow="block", block_limit_s=3600.0) as subscription,
    ):
        with job.input("records") as records:
            records.send([RECORD * 30])
            for epoch in range(1, 1000):
                records.advance_to(epoch)
                job.run_round()  # type: ignore[attr-defined]
            assert statistics(topic).sequence < 10
            assert [event.frontier for event in subscription.poll() if isinstance(event, tw.types.Frontier)]
        assert [epoch.time for epoch in subscription.epochs(timeout_s=DEADLINE_S)] == []
        job.wait(timeout_s=DEADLINE_S)


def test_several_partitions_hold_one_after_the_other(topic: str) -> None:
    """Each worker has its own publisher; a subscriber reads them all, and gets whole epochs."""

    class Both(Counting):
        def count(self, workers: int) -> int:
            return workers

    source = Both(200)
    with (
        tw.run(publishing(source, topic), engine="local", workers=3, config=SMALL) as job,
        tw.subscribe(topic, slow="block") as subscription,
    ):
        epochs = [(epoch.time, len(epoch)) for epoch in subscription.epochs(timeout_s=DEADLINE_S)]
        job.wait(timeout_s=DEADLINE_S)
    assert epochs == [(time, 3) for time in range(200)]
