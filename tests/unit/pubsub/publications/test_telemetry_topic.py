"""Tests of the topic on which a job describes itself, in one process."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.messages import raises
from tidewheel.host.attachment import AttachmentHost
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.publications import running_telemetry_topic
from tidewheel.pubsub.publications.running_telemetry_topic import RunningTelemetryTopic
from tidewheel.pubsub.publications.telemetry_topic import TelemetryTopic
from tidewheel.pubsub.subscribers.subscribing import subscribe

NAME = "tidewheel/telemetry/job"


class Heard:
    """A running topic, and how many subscribers have come."""

    def __init__(self) -> None:
        self.came = 0
        self.topic: RunningTelemetryTopic = TelemetryTopic().start(AttachmentHost("job", "local", 1), self._come)

    def _come(self) -> None:
        self.came += 1

    def publish(self, *numbers: int) -> None:
        for number in numbers:
            self.topic.publish(record(number))


def record(number: int) -> dict[str, Any]:
    return {"whole": True, "document": {"at": float(number)}}


@pytest.fixture
def heard() -> Iterator[Heard]:
    """A topic that has published one record to nobody."""
    made = Heard()
    made.publish(0)
    yield made
    made.topic.finish()
    assert NAME not in LOCAL_CATALOG.hidden()


def test_a_subscriber_receives_what_comes_after_it(heard: Heard) -> None:
    """Each record is an epoch of its own, by numbers that go on; the topic ends behind the last one."""
    with subscribe(NAME) as topic:
        assert (heard.came, heard.topic.listeners) == (1, 1)
        heard.publish(1, 2)
        heard.topic.finish()
        assert [(epoch.time, epoch.records) for epoch in topic.epochs()] == [(1, [record(1)]), (2, [record(2)])]
        assert heard.topic.listeners == 0


def test_nobody_is_counted_who_has_left(heard: Heard) -> None:
    """So the thread that publishes ends."""
    with subscribe(NAME):
        pass
    assert (heard.came, heard.topic.listeners) == (1, 0)


def test_it_is_in_no_list(heard: Heard) -> None:
    """A program that lists its topics finds those that it publishes."""
    assert NAME in LOCAL_CATALOG.hidden()
    assert NAME not in LOCAL_CATALOG.names()
    assert LOCAL_CATALOG.lookup(NAME) is not None


@pytest.mark.parametrize("slow", ["disconnect", "block"])
def test_a_listener_that_hangs_is_cut_off(monkeypatch: pytest.MonkeyPatch, slow: Any) -> None:
    """Its queue is bounded, also if it asked to be waited for; others go on."""
    monkeypatch.setattr(running_telemetry_topic, "_CAPACITY_BYTES", 2000)
    heard = Heard()
    with subscribe(NAME, slow=slow) as hangs, subscribe(NAME) as reads:
        for number in range(100):
            heard.publish(number)
            assert [event.time for event in reads.epochs().__next__().batches] == [number]
        with raises(DeliveryError):
            list(hangs.epochs())
    heard.topic.finish()


def open_now(topic: RunningTelemetryTopic) -> None:
    """Open the part for other processes, and wait until it is there."""
    topic.open()
    assert topic.listeners == 1
    opening = topic._opening
    if opening is not None:
        opening.join(10)


def test_other_processes_have_a_publication_until_a_minute_has_passed(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins at the epoch that comes next, counts as a listener, and is gone after a while without one."""
    monkeypatch.setattr(running_telemetry_topic, "node_id", lambda: "node")
    monkeypatch.setattr(running_telemetry_topic, "_LOOK_S", 0.0)
    heard.publish(1)
    open_now(heard.topic)
    elsewhere = heard.topic._elsewhere
    assert elsewhere is not None
    heard.publish(2, 3)
    assert elsewhere._running.statistics()[0]["records"] == 2
    assert (elsewhere._time, elsewhere.listeners, heard.topic.listeners) == (4, 0, 1)
    assert NAME in LOCAL_CATALOG.names()
    monkeypatch.setattr(running_telemetry_topic, "_LONELY_S", 0.0)
    heard.publish(4)
    assert (heard.topic._elsewhere, heard.topic.listeners) == (None, 0)
    assert NAME not in LOCAL_CATALOG.names()
    open_now(heard.topic)
    assert heard.topic._elsewhere is not None


def test_a_reader_that_comes_in_the_last_moment_is_seen(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    """As nobody has read for a minute: subscribers are counted once more before the publication ends."""
    monkeypatch.setattr(running_telemetry_topic, "node_id", lambda: "node")
    open_now(heard.topic)
    elsewhere = heard.topic._elsewhere
    assert elsewhere is not None
    elsewhere.listeners = 0  # as of the last look, which was just now
    monkeypatch.setattr(running_telemetry_topic, "_LONELY_S", 0.0)
    monkeypatch.setattr(elsewhere._running, "statistics", lambda: [{"subscribers": 1}])
    heard.publish(1)
    assert heard.topic._elsewhere is elsewhere


def test_what_has_no_room_is_left_out_and_comes_whole(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscriber in another process that falls behind holds nothing back."""
    monkeypatch.setattr(running_telemetry_topic, "node_id", lambda: "node")
    open_now(heard.topic)
    elsewhere = heard.topic._elsewhere
    assert elsewhere is not None
    monkeypatch.setattr(elsewhere._connection, "has_room", lambda: False)
    heard.publish(1, 2)
    assert (elsewhere._running.statistics()[0]["records"], heard.came) == (0, 2)


def test_another_process_is_served_only_when_it_asks(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be opened is logged, and local subscribers go on."""
    opened: list[str] = []

    def refuse(name: str, *_: object) -> None:
        opened.append(name)
        raise OSError("no cluster")

    monkeypatch.setattr(running_telemetry_topic, "_Elsewhere", refuse)
    monkeypatch.setattr(running_telemetry_topic, "node_id", lambda: "node")
    heard.publish(1)
    assert opened == []
    heard.topic.open()
    opening = heard.topic._opening
    if opening is not None:
        opening.join(10)
    assert opened == [NAME]
    heard.publish(2)


@pytest.mark.parametrize("failure", [RuntimeError("Ray was shut down"), SystemExit()])
def test_a_cluster_that_is_gone_ends_only_the_part_for_other_processes(
    heard: Heard, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    """Local subscribers go on, and the job describes itself no more often than before."""

    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(running_telemetry_topic, "node_id", lambda: "node")
    open_now(heard.topic)
    elsewhere = heard.topic._elsewhere
    assert elsewhere is not None
    finish = elsewhere._running.finish
    monkeypatch.setattr(elsewhere._connection, "flush", fail)
    with subscribe(NAME) as topic:
        heard.publish(1, 2)
        assert (heard.topic._elsewhere, heard.topic.listeners) == (None, 1)
        heard.topic.finish()
        assert [epoch.time for epoch in topic.epochs()] == [1, 2]
    finish("it is over", 1.0)


def test_listeners_are_counted_while_none_can_come_or_go(heard: Heard) -> None:
    """Otherwise the count may fail as one does, and with it the telemetry of the job."""
    here = heard.topic._here

    class Guarded(dict[str, Any]):
        def values(self) -> Any:
            assert here.changed._is_owned()  # type: ignore[attr-defined]
            return super().values()

    here.publisher.queues = Guarded(here.publisher.queues)
    with subscribe(NAME):
        assert heard.topic.listeners == 1
