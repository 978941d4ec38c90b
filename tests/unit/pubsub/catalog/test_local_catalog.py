"""The catalog of one process."""

import pytest

from tests.kit.messages import raises
from tests.kit.pubsub.local_job import LocalJob, send_end
from tidewheel.pubsub.catalog.catalog import CATALOG_TOPIC
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.errors import DeliveryError, NoCluster
from tidewheel.pubsub.subscribers.subscribing import subscribe


def test_a_topic_is_there_while_its_job_runs() -> None:
    """Starting registers it, finishing retracts it."""
    running = LocalJob().publish("catalog/a")
    assert "catalog/a" in LOCAL_CATALOG.names()
    assert LOCAL_CATALOG.lookup("catalog/a") is not None
    running.finish(None, 1.0)
    assert LOCAL_CATALOG.lookup("catalog/a") is None


def test_a_running_job_keeps_its_name_and_an_ended_one_does_not() -> None:
    """A name is free again once the topic has ended, though nobody has retracted it; a late retraction hits nobody."""
    old = LocalJob("old").publish("catalog/b")
    with raises(DeliveryError):
        LocalJob("new").publish("catalog/b")
    send_end(old, 0)
    new = LocalJob("new").publish("catalog/b")
    old.finish(None, 1.0)
    info = LOCAL_CATALOG.lookup("catalog/b")
    assert info is not None
    assert info.job == "new"
    new.finish(None, 1.0)


@pytest.mark.usefixtures("no_cluster")
def test_the_catalog_of_a_process_is_a_topic() -> None:
    """Without a cluster, each change is an epoch, whose time is the number of it; the rest is as for any topic."""
    first = LocalJob("first").publish("catalog/c")
    with subscribe(CATALOG_TOPIC) as subscription, subscribe(CATALOG_TOPIC, where=lambda e: e.job == "third") as few:
        version = LOCAL_CATALOG.listing().version
        second = LocalJob("second", workers=2).publish("catalog/d")
        first.finish(None, 1.0)
        second.finish("it broke", 1.0)
        third = LocalJob("third").publish("catalog/d")
        epochs = subscription.epochs(timeout_s=10)
        found = [(epoch.time, event) for epoch in (next(epochs) for _ in range(4)) for event in epoch.records]
        assert [(time - version, e.event, e.topic, e.job, e.partitions, e.reason) for time, e in found] == [
            (1, "published", "catalog/d", "second", 2, ""),
            (2, "retracted", "catalog/c", "first", 1, "its job has ended"),
            (3, "retracted", "catalog/d", "second", 2, "it broke"),
            (4, "published", "catalog/d", "third", 1, ""),
        ]
        assert all(event.version == time for time, event in found)
        assert [event.job for event in next(few.epochs(timeout_s=10)).records] == ["third"]
        third.finish(None, 1.0)


@pytest.mark.usefixtures("no_cluster")
def test_without_a_cluster_and_topics_there_is_no_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for it most likely means that of a cluster, so the error says that there is none."""
    monkeypatch.setattr(LOCAL_CATALOG, "names", list)
    with pytest.raises(NoCluster, match="no Ray cluster"):
        subscribe(CATALOG_TOPIC, timeout_s=0)


def test_what_takes_the_place_of_an_ended_job_is_told_after_its_end() -> None:
    """A name that changes hands is two changes."""
    old = LocalJob("old").publish("catalog/e")
    send_end(old, 0)
    before = LOCAL_CATALOG.listing()
    new = LocalJob("new").publish("catalog/e")
    after = LOCAL_CATALOG.listing()
    assert after.version == before.version + 2
    assert [event.job for event in after.published if event.topic == "catalog/e"] == ["new"]
    new.finish(None, 1.0)
    old.finish(None, 1.0)
