"""Watching which topics there are: those of this process, and of a cluster that is played here."""

import queue
import threading
import uuid
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.kit.messages import raises
from tests.kit.pubsub.local_job import LocalJob
from tests.waiting import eventually
from tidewheel.host.retry import Retry
from tidewheel.progress import IntegerDomain, TidewheelError
from tidewheel.pubsub.catalog import catalog_actor
from tidewheel.pubsub.catalog.catalog import Listing, TopicEvent, TopicInfo
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG, LocalCatalog
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.subscribers.local_source import LocalSource
from tidewheel.pubsub.subscribers.subscription import Subscription
from tidewheel.pubsub.subscribers.topics import CatalogReader, Sightings, TopicWatch, watch_topics

DEADLINE_S = 30.0


class PlayedCluster:
    """A catalog that can die and be replaced, with what it takes to read from it."""

    def __init__(self) -> None:
        self.catalog = LocalCatalog()
        self.subscriptions = 0
        self.is_gone = False

    def subscribe(self) -> Subscription:
        if self.is_gone:
            raise DeliveryError("nobody there")
        info = self.catalog.own_topic
        source = LocalSource(info, uuid.uuid4().hex)
        self.subscriptions += 1
        return Subscription(info, source)

    def listing(self) -> Listing:
        return self.catalog.listing()

    def die(self) -> None:
        """Replace the catalog; who has subscribed to the old one hears that it is lost."""
        old, self.catalog = self.catalog, LocalCatalog()
        old.own_topic.partitions[0].fail("the catalog is dead")

    def register(self, name: str, registration: str = "first") -> None:
        self.catalog.register(TopicInfo(name, "job", IntegerDomain(), (Unfinished(),), registration))


class Unfinished:
    """A publisher that goes on."""

    is_finished = False


@pytest.fixture
def cluster() -> PlayedCluster:
    return PlayedCluster()


@pytest.fixture
def watch(cluster: PlayedCluster) -> Iterator[TopicWatch]:
    """Watches it; with topic "a", which was there before."""
    cluster.register("a")
    with watching(cluster) as made:
        yield made
    assert not reading()


def watching(cluster: PlayedCluster, timeout_s: float | None = DEADLINE_S) -> TopicWatch:
    sightings: Sightings = queue.Queue()
    reader = CatalogReader(cluster.subscribe, cluster.listing, sightings)
    reader.start()
    return TopicWatch([reader], sightings, timeout_s)


def reading() -> list[threading.Thread]:
    """The threads that read catalogs."""
    return [thread for thread in threading.enumerate() if thread.name == "tidewheel-catalog-reader"]


def short(events: Iterator[TopicEvent], count: int) -> list[tuple[str, str, str]]:
    return [(event.event, event.topic, event.registration) for event in islice(events, count)]


def test_first_what_there_is_then_what_changes(cluster: PlayedCluster, watch: TopicWatch) -> None:
    """In the order in which it happens, with the versions of the catalog."""
    cluster.register("b")
    cluster.catalog.retract("a", "first", "it was killed")
    assert short(watch, 2) == [("published", "a", "first"), ("published", "b", "first")]
    event = next(watch)
    assert (event.event, event.topic, event.reason, event.version) == ("retracted", "a", "it was killed", 3)


def test_a_restart_of_the_catalog_is_no_news(cluster: PlayedCluster, watch: TopicWatch) -> None:
    """What the new one knows in time never went; what comes after it is told as ever."""
    assert short(watch, 1) == [("published", "a", "first")]
    cluster.die()
    cluster.register("a")
    assert eventually(lambda: cluster.subscriptions > 1, DEADLINE_S)
    cluster.register("b")
    assert short(watch, 1) == [("published", "b", "first")]
    cluster.catalog.retract("a", "first")
    assert short(watch, 1) == [("retracted", "a", "first")]


def test_what_a_new_catalog_does_not_learn_has_gone(
    cluster: PlayedCluster, watch: TopicWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while, which is short here, without anything else that happens."""
    monkeypatch.setattr("tidewheel.pubsub.catalog.known_topics.RELEARN_S", 0.2)
    assert short(watch, 1) == [("published", "a", "first")]
    cluster.die()
    assert short(watch, 1) == [("retracted", "a", "first")]


def test_the_iteration_ends_after_a_time_without_news(cluster: PlayedCluster) -> None:
    """With 0 it tells what there is; it may be asked again."""
    cluster.register("a")
    with watching(cluster, timeout_s=0) as watch:
        assert short(watch, 9) == [("published", "a", "first")]
        assert list(watch) == []


def test_closing_ends_an_iteration_that_waits(cluster: PlayedCluster) -> None:
    """From another thread, at once; and again, to no effect."""
    watch = watching(cluster, timeout_s=None)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(list(watch)))
    thread.start()
    watch.close()
    watch.close()
    thread.join(DEADLINE_S)
    assert found == [[]]
    assert not reading()


def test_a_watch_that_is_dropped_leaves_no_thread(cluster: PlayedCluster) -> None:
    """Nobody has to close it."""
    watch = watching(cluster)
    assert len(reading()) == 1
    del watch
    assert eventually(lambda: not reading())


def test_a_cluster_that_is_gone_for_good_is_an_error(cluster: PlayedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while in which it was looked for, which is short here; and then the watch is closed."""
    again = Retry(within_s=0.1, first_pause_s=0.02)
    monkeypatch.setattr("tidewheel.pubsub.subscribers.topics._SEARCHES", again)
    with watching(cluster) as watch:
        cluster.is_gone = True
        cluster.die()
        with raises(DeliveryError):
            next(watch)
        assert list(watch) == []


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process find no Ray cluster, though there may be one."""

    def connect(failure: type[TidewheelError]) -> None:
        raise failure("no Ray cluster")

    monkeypatch.setattr(catalog_actor, "connect_to_running", connect)


@pytest.mark.usefixtures("no_cluster")
def test_topics_of_this_process_are_watched_without_a_cluster() -> None:
    """From a local job on, which may then end."""
    running = LocalJob("local").publish("watch/a", 1 << 20)
    with watch_topics(timeout_s=DEADLINE_S) as watch:
        assert next(event for event in watch if event.topic == "watch/a").event == "published"
        running.finish("it broke", 1)
        event = next(event for event in watch if event.topic == "watch/a")
        assert (event.event, event.job, event.reason) == ("retracted", "local", "it broke")


@pytest.mark.usefixtures("no_cluster")
def test_without_a_cluster_and_topics_there_is_nothing_to_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says so, and no thread is left."""
    monkeypatch.setattr(LOCAL_CATALOG, "names", list)
    with pytest.raises(DeliveryError, match="no Ray cluster"):
        watch_topics()
    assert not reading()
