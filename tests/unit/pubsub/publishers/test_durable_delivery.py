"""The actor around a pubend: a worker, children and a log, all real, without a cluster; and it starts again."""

import select
import time
from pathlib import Path
from typing import Any

import pytest

from tests.kit.exactly_once.hosts import (
    DEADLINE_S,
    DOMAIN,
    Reader,
    Times,
    acknowledged,
    contents,
    durable_actor,
    everything,
    finish,
    hosted,
    send,
    told,
)
from tests.kit.messages import raises
from tests.waiting import eventually
from tidewheel.pubsub.errors import PublisherLost
from tidewheel.pubsub.exactly_once.journal import next_generation
from tidewheel.pubsub.log.errors import LogLocked
from tidewheel.pubsub.messages.delivery_messages import MOST_ANSWERED, KnowledgeMessage, Nack
from tidewheel.pubsub.messages.frames import CODEC, Join
from tidewheel.pubsub.messages.tick_set import FOREVER
from tidewheel.pubsub.messages.wire import Generation, LowerFrontierUpdate, Rejected
from tidewheel.pubsub.publishers import durable_delivery
from tidewheel.pubsub.publishers.feed import Feed, FeedRefused
from tidewheel.pubsub.publishers.sent_events import SentEvents
from tidewheel.transport.stream_link import ParentLink


@pytest.mark.parametrize("place", ["folder", "s3"])
def test_everybody_gets_everything_once_also_over_restarts(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Three subscriptions, one with a filter and one that comes late and wants all; the actor is started anew twice."""
    with hosted(tmp_path if place == "folder" else f"{request.getfixturevalue('bucket')}/log") as host:
        feed = Feed(SentEvents(DOMAIN), host.connection)
        readers = [Reader(host, "all"), Reader(host, "even", Times(2))]
        try:
            for at in range(30):
                send(feed, at)
                if at in {10, 20}:
                    readers[0].read(lambda events: len(contents(events)) >= 4)
                    host.restart()
            readers.append(Reader(host, "late", start=0))
            feed.send([LowerFrontierUpdate([(30, -1)])])
            feed.finish()
            assert host.call(host.actor.known_end(0, DEADLINE_S, None))
            assert not host.call(host.actor.ended(0.0))
            host.restart()
            host.call(host.actor.end({}, 0.0))
            assert host.call(host.actor.ended(DEADLINE_S))
            for reader, wanted in zip(readers, (60, 30, 60), strict=True):
                reader.read(lambda events, wanted=wanted: len(contents(events)) >= wanted)  # type: ignore[misc]
        finally:
            feed.close()
            for reader in readers:
                reader.close()
    assert contents(readers[0].events) == contents(readers[2].events) == everything(range(30))
    assert contents(readers[1].events) == [one for one in everything(range(30)) if one[0] % 2 == 0]


def test_a_worker_that_does_not_wait_is_not_awaited(tmp_path: Path) -> None:
    """Nor after a restart of the publisher: the first subscriber had come before, and has gone."""
    with hosted(tmp_path, awaited=1) as host:
        assert host.call(host.actor.awaited(0.0)) is False
        feed = Feed(SentEvents(DOMAIN), host.connection, is_awaiting=True)
        try:
            assert not feed.has_room()
            host.call(host.actor.unsubscribe(Reader(host, "short", durable=False).id))
            assert host.call(host.actor.awaited(0.0)) is True
            assert eventually(feed.has_room, DEADLINE_S)
            host.restart()
            assert host.call(host.actor.awaited(0.0)) is False
            connection = host.call(host.actor.listen(awaits=False))
            assert connection is not None
            assert host.call(host.actor.awaited(0.0)) is True
            send(feed, 0)
            feed.send([LowerFrontierUpdate([(1, -1)])])
            feed.finish()
        finally:
            feed.close()


def test_a_worker_whose_job_has_gone_back_is_refused_alone(tmp_path: Path) -> None:
    """It connects late, as its process was killed and has not ended. The log goes on, with the worker in its place."""
    with hosted(tmp_path) as host:
        old = Feed(SentEvents(DOMAIN), host.connection)
        send(old, 0)
        assert eventually(lambda: not old._sent.waiting, DEADLINE_S)
        host.call(host.actor.go_back(True))
        place = host.call(host.actor.place(DEADLINE_S))
        generation = next_generation(DOMAIN, [place])
        assert generation == Generation(1, (1,))
        new = Feed(SentEvents(DOMAIN, None, generation), host.connection)
        try:
            send(new, 0)
            send(new, 1)
            assert eventually(lambda: not new._sent.waiting, DEADLINE_S)
            late = Feed(SentEvents(DOMAIN), host.connection)
            with raises(FeedRefused):
                finish(late, 0)
            send(new, 2)
            new.send([LowerFrontierUpdate([(3, -1)])])
            new.finish()
            host.call(host.actor.end({}, 0.0))
            assert host.call(host.actor.ended(DEADLINE_S))
            assert not host.call(host.actor.problem())
        finally:
            old.close()
            new.close()
        reader = Reader(host, "all", start=0)
        reader.read(lambda events: len(contents(events)) == 6)
        assert contents(reader.events) == everything(range(3))
        reader.close()


def test_a_publisher_of_a_job_that_has_failed_is_lost(tmp_path: Path) -> None:
    """So a reader that subscribes again when it has lost a publisher does so also while its job fails to start."""
    with hosted(tmp_path) as host:
        host.call(host.actor.fail("job 'bills' could not start"))
        with raises(PublisherLost):
            host.call(host.actor.subscribe("billing", "reader", durable=True))


def test_a_subscription_goes_on_where_it_was(tmp_path: Path) -> None:
    """Another process takes over its name: what was acknowledged does not come again; and forgotten is forgotten."""
    with hosted(tmp_path) as host:
        feed = Feed(SentEvents(DOMAIN), host.connection)
        first = Reader(host, "billing", start=0)
        try:
            for at in range(5):
                send(feed, at)
            first.read(lambda events: len(contents(events)) == 10)
            first.read(lambda _: bool(host.call(acknowledged(host, "billing"))))
            first.close()
            send(feed, 5)
            host.restart()
            second = Reader(host, "billing", start=0)
            second.read(lambda events: len(contents(events)) == 2)
            second.close()
            assert contents(second.events) == everything(range(5, 6))
            host.call(host.actor.end_subscription("billing"))
            host.restart()
            assert host.call(host.actor.subscribe("billing", "another")).acknowledged[0][1] > 0
        finally:
            feed.close()
            first.close()


def test_segments_that_nobody_needs_are_removed_as_fast_as_new_ones_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without waiting for the next regular look: at full rate a second has many segments."""
    monkeypatch.setattr(durable_delivery, "LOOK_S", 10 * DEADLINE_S)
    with hosted(tmp_path, lease_s=0.0, segment_bytes=1000) as host:
        feed = Feed(SentEvents(DOMAIN), host.connection)
        reader = Reader(host, "unnamed", start=0, durable=False)
        log = host.actor._durable.core.log
        try:
            for at in range(100):
                send(feed, at)
                reader.read(lambda events, at=at: len(contents(events)) == 2 * (at + 1))  # type: ignore[misc]
            assert eventually(lambda: log.removed_end > log.newest_after // 2, DEADLINE_S)
        finally:
            feed.close()
            reader.close()


def test_questions_about_others_are_rejected(tmp_path: Path) -> None:
    """With what was wrong; others are served."""
    with hosted(tmp_path) as host:
        link = ParentLink(CODEC, host.connection("lost"))
        link.say([Join("lost", None), Nack(3, ((0, 5),), 100)])
        found: list[Any] = []
        deadline_s = time.monotonic() + DEADLINE_S
        while not any(isinstance(message, Rejected) for message in found) and time.monotonic() < deadline_s:
            select.select([link], [], [], 0.1)
            found += link.read()
        link.close()
        assert "it asked pubend 0 about pubend 3" in found[-1].reason


def test_the_log_belongs_to_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second actor waits for the first to end, and then says who has it."""
    monkeypatch.setattr("tidewheel.pubsub.publishers.durable_delivery.PREDECESSOR_ENDS_WITHIN_S", 0.1)
    with hosted(tmp_path) as host:
        other = durable_actor(tmp_path)
        with raises(LogLocked):
            host.call(other.open())
        host.call(other.close())


def test_a_late_reader_is_answered_in_short_pieces_between_live_messages(tmp_path: Path) -> None:
    """Of a long log of small messages: each answer is short, and a live reader receives the next epoch meanwhile."""
    epochs = 2 * MOST_ANSWERED
    with hosted(tmp_path, segment_bytes=1 << 20) as host:
        feed = Feed(SentEvents(DOMAIN), host.connection)
        live = Reader(host, "live")
        Reader(host, "keeps all", start=0)
        for at in range(epochs):
            send(feed, at)
        live.read(lambda events: len(events) == 3 * epochs)
        late = Reader(host, "late", start=0)
        link = late.connect()
        link.say([Nack(0, ((0, FOREVER),), 1 << 30)])
        answers = told(link, KnowledgeMessage)
        assert sum(len(one.data) for one in answers) == MOST_ANSWERED
        assert answers[-1].more
        send(feed, epochs)
        for reader in (live, late):
            reader.read(lambda events: len(events) == 3 * epochs + 3)
        assert contents(late.events) == contents(live.events) == everything(range(epochs + 1))
        feed.close()
        live.close()
        late.close()
