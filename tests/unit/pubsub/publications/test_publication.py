"""Publications, in their local form."""

import pickle
import threading
from typing import Any

import pytest

from tests.kit.messages import raises
from tests.kit.pubsub.local_job import LocalJob, send_end, send_epoch
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.publications.publication import Publication
from tidewheel.pubsub.subscribers.subscribing import subscribe


@pytest.mark.parametrize("topic", ["", None, 7])
def test_a_topic_needs_a_name(topic: Any) -> None:
    """A name that is no text, or empty, is refused when the dataflow is described."""
    with raises(DeliveryError):
        Publication(topic, IntegerDomain())


@pytest.mark.parametrize("topic", ["tidewheel/catalog", "tidewheel/"])
def test_some_names_are_reserved(topic: str) -> None:
    """Those of topics that tidewheel has itself."""
    with pytest.raises(DeliveryError, match=f"topic '{topic}': names that begin with 'tidewheel/' are reserved"):
        Publication(topic, IntegerDomain())
    Publication("tidewheel", IntegerDomain())


@pytest.mark.parametrize("capacity", [0, -1, True, 1.5, "1 MiB", None], ids=str)
def test_a_topic_needs_room(capacity: Any) -> None:
    """A capacity of nothing is refused, and what is no number of bytes."""
    with raises(DeliveryError):
        Publication("a", IntegerDomain(), capacity_bytes=capacity)


@pytest.mark.parametrize("partition", ["workers", None, 1], ids=str)
def test_there_are_two_ways_to_have_partitions(partition: Any) -> None:
    """The error says which."""
    with raises(DeliveryError):
        Publication("a", IntegerDomain(), partition=partition)


def test_a_merged_topic_has_one_partition() -> None:
    """All workers have a connection, of which the first is the one that counts; it ends as that does."""
    running = Publication("publication/m", IntegerDomain(), partition="merged").start(LocalJob(workers=3).host)
    try:
        with subscribe("publication/m") as subscription:
            running.wait_for_subscribers(1, 10)
            info = LOCAL_CATALOG.lookup("publication/m")
            assert info is not None
            assert len(info.partitions) == 1
            assert len(running.handles) == 3
            for worker, connection in enumerate(running.handles):
                assert connection.has_room()
                connection.frontier([(0, -1), (1, 1)])
                connection.flush()
                if worker == 0:
                    connection.data(1, ["a"])
                    connection.frontier([(1, -1)])
                    connection.flush()
            assert [(epoch.time, epoch.records) for epoch in subscription.epochs(timeout_s=10)] == [(1, ["a"])]
    finally:
        running.finish(None, 1)


def test_a_topic_that_is_published_can_be_found() -> None:
    """There is no problem with it."""
    running = LocalJob().publish("publication/p")
    assert running.problem is None
    running.finish(None, 1)


def test_a_description_can_be_sent_to_workers() -> None:
    """It pickles."""
    publication = Publication("a", IntegerDomain(), capacity_bytes=10, partition="merged")
    assert pickle.loads(pickle.dumps(publication)) == publication


def test_waiting_for_subscribers_tells_how_many_there_are() -> None:
    """Enough is enough; too few is an error with the count at each partition."""
    running = LocalJob(workers=2).publish("publication/a")
    with raises(DeliveryError):
        running.wait_for_subscribers(1, 0)
    with subscribe("publication/a"):
        running.wait_for_subscribers(1, 10)
    running.finish(None, 1)


def test_a_subscriber_that_comes_wakes_who_waits_for_it() -> None:
    """The wait ends when another thread subscribes."""
    running = LocalJob().publish("publication/b")
    failures: list[DeliveryError] = []

    def wait() -> None:
        try:
            running.wait_for_subscribers(1, 30)
        except DeliveryError as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    with subscribe("publication/b"):
        thread.join(30)
    assert not thread.is_alive()
    assert not failures
    running.finish(None, 1)


def test_what_was_published_can_be_read_after_the_job_has_finished() -> None:
    """A local job that is over leaves its subscribers what they have not read."""
    running = LocalJob().publish("publication/c")
    with subscribe("publication/c") as subscription:
        send_epoch(running, 0, [1])
        send_end(running, 1)
        running.finish(None, 0)
        running.finish(None, 0)
        assert [epoch.records for epoch in subscription.epochs()] == [[1]]


@pytest.mark.parametrize(
    ("error", "reason"), [("it broke", "it broke"), (None, "the job was stopped before the topic ended")]
)
def test_a_topic_that_has_not_ended_fails(error: str | None, reason: str) -> None:
    """A job that fails, or is stopped early, is an error for its subscribers, after all that came before."""
    running = LocalJob().publish("publication/d")
    with subscribe("publication/d") as subscription:
        send_epoch(running, 0, [1])
        running.finish(error, 0)
        epochs = subscription.epochs()
        assert next(epochs).records == [1]
        with pytest.raises(PublisherLost, match=reason):
            next(epochs)
        with pytest.raises(PublisherLost, match=reason):
            next(subscription)


def test_an_error_after_the_end_is_no_news() -> None:
    """A topic that ended before its job failed has ended well."""
    running = LocalJob().publish("publication/e")
    with subscribe("publication/e") as subscription:
        send_end(running, 0)
        running.finish("it broke", 0)
        assert list(subscription.epochs()) == []
