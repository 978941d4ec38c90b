"""Tests of the reader of telemetry, with a topic of this process."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.messages import raises
from tests.kit.telemetry.documents import BEGAN_AT, document
from tests.waiting import eventually
from tidewheel.display.merge_patch import patch
from tidewheel.host.attachment import AttachmentHost
from tidewheel.pubsub.errors import DeliveryError, NoCluster, UnknownTopic
from tidewheel.pubsub.publications import running_telemetry_topic
from tidewheel.pubsub.publications.running_telemetry_topic import RunningTelemetryTopic
from tidewheel.pubsub.publications.telemetry_topic import TelemetryTopic
from tidewheel.pubsub.subscribers.telemetry_reader import TelemetryReader

JOB = "followed-0badcafe"
DOCUMENTS = [document(at=BEGAN_AT + at, name=JOB, job={"returns": at}) for at in range(10)]


class Told:
    """A topic on which documents are published as a job does it: a whole one for each subscriber that has come."""

    def __init__(self) -> None:
        self._is_whole_due = False
        self.topic: RunningTelemetryTopic = TelemetryTopic().start(AttachmentHost(JOB, "local", 1), self._come)

    def _come(self) -> None:
        self._is_whole_due = True

    def tell(self, *numbers: int) -> None:
        for number in numbers:
            whole, self._is_whole_due = self._is_whole_due, False
            told = DOCUMENTS[number] if whole else patch(DOCUMENTS[number - 1], DOCUMENTS[number])
            self.topic.publish({"whole": whole, "document": told})


@pytest.fixture
def told() -> Iterator[Told]:
    """A topic."""
    made = Told()
    yield made
    made.topic.finish()


def test_views_follow_each_other_to_the_end(told: Told) -> None:
    """Each has the whole document, of which only the first was sent."""
    with TelemetryReader(JOB) as reader:
        told.tell(0, 1, 2)
        told.topic.finish()
        views = list(reader)
    assert [view.document for view in views] == DOCUMENTS[:3]
    assert [view.before for view in views] == [None, *DOCUMENTS[:2]]
    assert views[2].rate("job", "returns") == 1.0


def test_a_late_reader_receives_a_whole_document(told: Told) -> None:
    """Two readers have equal documents from then on."""
    with TelemetryReader(JOB) as early:
        told.tell(0, 1)
        with TelemetryReader(JOB) as late:
            told.tell(2, 3)
            told.topic.finish()
            assert [view.document for view in late] == DOCUMENTS[2:4]
            assert [view.document for view in early] == DOCUMENTS[:4]


def test_a_reader_that_falls_behind_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cut off, subscribes again, and misses what came meanwhile."""
    size = len(repr(DOCUMENTS[0]))
    monkeypatch.setattr(running_telemetry_topic, "_CAPACITY_BYTES", 2 * size)
    made = Told()
    with TelemetryReader(JOB) as reader:
        told_all = threading.Event()
        made.tell(0)
        assert next(reader).document == DOCUMENTS[0]
        for number in (1, 2, 3):
            made._is_whole_due = True
            made.tell(number)
        come = made._come

        def come_again() -> None:
            come()
            told_all.set()

        monkeypatch.setattr(made.topic._here, "came", come_again)
        found: list[int] = []
        reading = threading.Thread(target=lambda: found.extend(view.document["job"]["returns"] for view in reader))
        reading.start()
        assert told_all.wait(10)
        made.tell(4, 5)
        made.topic.finish()
        reading.join(10)
    assert found[-2:] == [4, 5]


def test_a_reader_that_gets_only_patches_subscribes_again(told: Told) -> None:
    """The request for a whole document may be lost with the process that it was sent to."""
    with TelemetryReader(JOB) as reader:
        told._is_whole_due = False
        told.tell(*range(1, 8))
        found: list[float] = []
        reading = threading.Thread(target=lambda: found.append(next(reader).document["job"]["returns"]))
        reading.start()
        assert eventually(lambda: told._is_whole_due)
        told.tell(8)
        reading.join(10)
    assert found == [8]


def unknown(*_: object, **__: object) -> None:
    raise UnknownTopic("gone", topic="t", waited_s=0.0, topics=())


def without_cluster(*_: object, **__: object) -> None:
    raise NoCluster("no Ray cluster runs")


GONE = pytest.mark.parametrize("find", [unknown, without_cluster])


@GONE
def test_a_job_that_has_told_its_end_has_ended(told: Told, monkeypatch: pytest.MonkeyPatch, find: Any) -> None:
    """Also if its process was gone before the topic had ended; that of a local job needs no cluster."""
    with TelemetryReader(JOB) as reader:
        told.topic.publish({"whole": True, "document": document(state="complete")})
        assert next(reader).has_ended
        told.topic._here.fail("the process is gone")
        told.topic.finish()
        monkeypatch.setattr("tidewheel.pubsub.subscribers.telemetry_reader.subscribe", find)
        assert list(reader) == []


def test_closing_ends_an_iteration(told: Told) -> None:
    """A page that nobody looks at any more has its thread end."""
    reader = TelemetryReader(JOB)
    told.tell(0)
    next(reader)
    ended = threading.Event()

    def read_on() -> None:
        assert list(reader) == []
        ended.set()

    reading = threading.Thread(target=read_on)
    reading.start()
    reader.close()
    assert ended.wait(10)
    reading.join(10)
    reader.close()


@GONE
def test_a_job_that_is_gone_is_an_error(told: Told, monkeypatch: pytest.MonkeyPatch, find: Any) -> None:
    """A reader that loses a job, and finds it no more, says what it has lost."""
    with TelemetryReader(JOB) as reader:
        told.topic._here.fail("the process is gone")
        told.topic.finish()
        monkeypatch.setattr("tidewheel.pubsub.subscribers.telemetry_reader.subscribe", find)
        with raises(DeliveryError):
            next(reader)
