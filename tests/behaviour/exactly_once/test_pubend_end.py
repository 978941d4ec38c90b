"""The actor around a pubend at its end, and while its disk is full: who is waited for, and who is told what. No Ray."""

import asyncio
import errno
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.exactly_once.hosts import (
    DOMAIN,
    Reader,
    contents,
    everything,
    finish,
    hosted,
    looks_of,
    published,
    read_all,
    send,
    told,
)
from tests.kit.messages import raises
from tests.waiting import eventually
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.log.errors import LogError
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage
from tidewheel.pubsub.messages.frames import CODEC, Join
from tidewheel.pubsub.messages.wire import LowerFrontierUpdate, Rejected
from tidewheel.pubsub.publishers.feed import Feed, FeedRefused
from tidewheel.pubsub.publishers.sent_events import SentEvents
from tidewheel.storage.files import FILES
from tidewheel.transport.stream_link import ParentLink

# ---------------------------------------------------------------------- the end


def test_drained_is_when_everybody_who_lives_has_acknowledged_all(tmp_path: Path) -> None:
    """Of a process that does not count it is not waited for, nor for one that has gone."""
    with hosted(tmp_path) as host:
        assert host.call(host.actor.drained(0.0))
        readers = [Reader(host, name, start=0, process=process) for name, process in (("a", "own"), ("b", "other"))]
        published(host, 2)
        assert not host.call(host.actor.drained(0.0))
        readers[1].read(lambda events: len(contents(events)) == 4)
        readers[1].read(lambda _: host.call(host.actor.drained(0.0, "own")))
        assert not host.call(host.actor.drained(0.0, "other"))
        readers[0].connect()
        assert eventually(lambda: host.call(host.actor.statistics())["children"] == 2)
        assert not host.call(host.actor.drained(0.2))
        readers[0].close()
        assert host.call(host.actor.drained(10.0))
        readers[1].close()


def test_after_a_restart_it_is_waited_for_those_who_may_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a moment: nobody knows them then."""
    monkeypatch.setattr("tidewheel.pubsub.publishers.audience.RETURN_WITHIN_S", 0.5)
    with hosted(tmp_path) as host:
        published(host, 1)
        host.restart()
        assert host.call(host.actor.ended(10.0))
        assert not host.call(host.actor.drained(0.0))
        assert host.call(host.actor.drained(10.0))


def test_it_retires_when_everybody_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Or does not go on reading; its own process has all the time. Then what was acknowledged is in the log."""
    exits: list[str] = []
    ray = SimpleNamespace(actor=SimpleNamespace(exit_actor=lambda: exits.append("exit")))
    monkeypatch.setitem(sys.modules, "ray", ray)
    with hosted(tmp_path, lease_s=0.5) as host:
        readers = [Reader(host, name, start=0, process=process) for name, process in (("a", "own"), ("b", "other"))]
        for reader in readers:
            reader.connect()
        published(host, 2)
        polls: list[Any] = [
            host.begin(host.actor.problem("", 600.0)),
            host.begin(host.actor.wait_for_subscribers(9, 600.0)),
        ]
        retiring = host.begin(host.actor.retire("own"))
        assert eventually(lambda: "the last messages are not kept for subscription 'b' any longer" in caplog.text)
        assert not retiring.done()
        readers[0].read(lambda events: len(contents(events)) == 4)
        assert eventually(retiring.done)
        assert (retiring.result(), exits) == (None, ["exit"])
        assert [poll.result(10.0) for poll in polls] == ["", 2], "Ray keeps an actor alive for the calls that it is in"
        assert [type(one) for one in readers[1].hear()] == [Rejected]
        with raises(DeliveryError):
            host.call(host.actor.subscribe("late", "late"))
        host.restart()
        host.call(host.actor.open())
        assert host.run(host.actor._durable.core.unread) == ["b"]
        for reader in readers:
            reader.close()


class Other:
    """The handle of another publisher, whose readers have everything once a test says so."""

    def __init__(self) -> None:
        self.read_by_all = self
        self.answer: asyncio.Future[None] | None = None

    def options(self, **_: Any) -> "Other":
        return self

    def remote(self, _owner: str) -> "asyncio.Future[None]":
        self.answer = asyncio.get_running_loop().create_future()
        return self.answer


def test_it_stays_for_readers_of_other_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In total order they may wait for its silence. A publisher that has ended is not waited for."""
    exits: list[str] = []
    ray = SimpleNamespace(actor=SimpleNamespace(exit_actor=lambda: exits.append("exit")))
    monkeypatch.setitem(sys.modules, "ray", ray)
    others = [Other(), Other()]
    with hosted(tmp_path) as host:
        published(host, 1)
        retiring = host.begin(host.actor.retire("own", others))
        assert eventually(lambda: all(other.answer is not None for other in others))
        ends = [other.answer for other in others if other.answer is not None]
        host.run(lambda: ends[0].set_exception(DeliveryError("it has ended")))
        for _ in range(20):
            host.call(host.actor.ping())
        assert not retiring.done()
        host.run(lambda: ends[1].set_result(None))
        assert eventually(retiring.done)
        assert (retiring.result(), exits) == (None, ["exit"])


def test_a_topic_that_fails_tells_everybody_why(tmp_path: Path) -> None:
    """Who reads, who publishes, and who comes later; and nobody is waited for. The log goes on another time."""
    with hosted(tmp_path) as host:
        reader = Reader(host, "live", start=0, durable=False)
        feed = Feed(SentEvents(DOMAIN), host.connection)
        send(feed, 0)
        reader.read(lambda events: len(contents(events)) == 2)
        host.call(host.actor.fail("it rains"))
        assert reader.hear() == [Rejected(0, "it rains")]
        assert host.call(host.actor.ended(0.0))
        assert host.call(host.actor.problem()) == "it rains"
        assert host.call(host.actor.drained(0.0))
        with raises(FeedRefused):
            finish(feed, 1)
        another = Feed(SentEvents(DOMAIN), host.connection)
        with raises(FeedRefused):
            finish(another, 0)
        with raises(DeliveryError):
            host.call(host.actor.subscribe("late", "late"))
        late = ParentLink(CODEC, host.connection("late"))
        late.say([Join("late", None)])
        assert told(late, Rejected) == [Rejected(0, "it rains")]
        late.close()
        reader.close()
        host.restart()
        published(host, 2)
        reader = Reader(host, "live", start=0, durable=False)
        reader.read(lambda events: len(contents(events)) == 4)
        reader.close()


def test_what_was_acknowledged_before_a_failure_is_noted_after_it(tmp_path: Path) -> None:
    """For a moment it is waited for readers of durable subscriptions, who leave when they are told; it is no error."""
    with hosted(tmp_path) as host:
        readers = [Reader(host, name, start=0, process=process) for name, process in (("a", "own"), ("b", "other"))]
        feed = Feed(SentEvents(DOMAIN), host.connection)
        send(feed, 0)
        for reader in readers:
            reader.read(lambda events: len(contents(events)) == 2)
        host.call(host.actor.fail("it rains"))
        for reader in readers:
            assert reader.hear() == [Rejected(0, "it rains")]
            reader.close()
        assert not host.call(host.actor.drained(0.0, "own"))
        tick = host.run(lambda: host.actor._durable.core.writer.durable_tick)
        for reader in readers[::-1]:
            assert not host.call(host.actor.drained(0.0))
            host.call(host.actor.unsubscribe(reader.id, ((0, tick),)))
            assert host.call(host.actor.drained(0.0, "own"))
        assert host.call(host.actor.drained(0.0))
        host.restart()
        again = Reader(host, "a", start=0)
        assert host.run(lambda: host.actor._durable.core.subscriptions.known["a"].acknowledged.prefix_end) >= tick
        again.close()
        with raises(FeedRefused):
            finish(feed, 1)


def test_nobody_waits_long_for_who_does_not_leave_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have died just then."""
    monkeypatch.setattr("tidewheel.pubsub.publishers.audience.LEAVE_WITHIN_S", 0.5)
    with hosted(tmp_path) as host:
        reader = Reader(host, "billing", start=0)
        published(host, 2)
        host.call(host.actor.fail("it rains"))
        assert not host.call(host.actor.drained(0.0))
        assert host.call(host.actor.drained(10.0))
        reader.close()


def test_a_first_life_waits_for_nobody_whoever_calls_first(tmp_path: Path) -> None:
    """The catalog looks after a publisher as soon as it knows it, which may be before its log is open."""
    with hosted(tmp_path) as host:
        host.restart()
        assert not host.call(host.actor.ended(0.0))
        assert not host.call(host.actor.drained(0.0))
        host.call(host.actor.open())
        assert host.call(host.actor.drained(0.0))


def test_a_worker_is_refused_at_the_end(tmp_path: Path) -> None:
    """At once: it does not look for its publisher for a minute. Who asks for problems then is told that all is well."""
    with hosted(tmp_path) as host:
        feed = Feed(SentEvents(DOMAIN), host.connection)
        send(feed, 0)
        assert eventually(
            lambda: host.run(
                lambda: host.actor._durable.core.messages > 0 and host.actor._durable.core.writer.is_durable
            )
        )
        host.call(host.actor.close())
        with raises(FeedRefused):
            finish(feed, 1)
        host.call(host.actor.close())
        assert host.call(host.actor.problem("", 5.0)) == ""


@pytest.mark.parametrize("has_read", [False, True])
def test_who_has_not_had_everything_is_told_at_the_end(tmp_path: Path, has_read: bool) -> None:
    """Others know that it has ended."""
    with hosted(tmp_path) as host:
        reader = Reader(host, "billing", start=0)
        link = reader.connect()
        published(host, 1)
        if has_read:
            read_all(reader, host, 1)
        assert eventually(lambda: host.call(host.actor.statistics())["children"] == 1)
        host.call(host.actor.close())
        found: list[Any] = []

        def is_over() -> bool:
            found.extend(link.read())
            return link.is_lost

        assert eventually(is_over)
        rejected = [one for one in found if not isinstance(one, KnowledgeMessage)]
        expected = [] if has_read else [Rejected(0, "the publisher has ended before everything was read")]
        assert rejected == expected
        reader.close()


def test_what_was_acknowledged_before_it_closes_is_durable(tmp_path: Path) -> None:
    """Without waiting for anything."""
    with hosted(tmp_path) as host:
        reader = Reader(host, "billing", start=0)
        published(host, 1)
        read_all(reader, host, 1)
        host.call(host.actor.close())
        host.restart()
        again = Reader(host, "billing", start=0)
        assert host.run(host.actor._durable.core.unread) == []
        reader.close()
        again.close()


# ---------------------------------------------------------------------- a disk that is full


def test_a_full_disk_holds_back_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so, once; and when there is room it goes on, and everything is there."""
    is_full = [False]
    real = FILES.write

    def write(descriptor: int, parts: Any, offset: int) -> int:
        if is_full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, parts, offset)

    monkeypatch.setattr(FILES, "write", write)
    with hosted(tmp_path) as host:
        feed = Feed(SentEvents(DOMAIN), host.connection)
        reader = Reader(host, "billing", start=0)
        send(feed, 0)
        reader.read(lambda events: len(contents(events)) == 2)
        is_full[0] = True
        send(feed, 1)
        assert eventually(lambda: "No space left" in host.call(host.actor.problem()))
        for at in range(2, 10):
            send(feed, at)
        looks = looks_of(host)
        assert eventually(lambda: looks() > 20)
        assert not host.call(host.actor.ended(0.0))
        errors = [one for one in caplog.records if one.levelno >= logging.ERROR]
        assert len(errors) == 1
        assert "Until there is room nothing is published, and its worker is held back" in errors[0].getMessage()
        is_full[0] = False
        feed.send([LowerFrontierUpdate([(10, -1)])])
        feed.finish()
        assert host.call(host.actor.problem()) == ""
        assert "the log has room again" in caplog.text
        read_all(reader, host, 10)
        assert contents(reader.events) == everything(range(10))
        reader.close()


def test_a_subscription_that_cannot_be_noted_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is wrong."""
    monkeypatch.setattr("tidewheel.pubsub.publishers.audience.NOTED_WITHIN_S", 0.5)
    with hosted(tmp_path) as host:

        def write(descriptor: int, parts: Any, offset: int) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(FILES, "write", write)
        with raises(LogError):
            host.call(host.actor.subscribe("billing", "p/billing/1", durable=True))
        monkeypatch.undo()
