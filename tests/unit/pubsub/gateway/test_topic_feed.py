"""Subscriptions that are read on threads of their own."""

import threading
from collections.abc import Iterator

import pytest

from tests.kit.gateway.served import (
    nobody_reads,
    published,
)
from tests.kit.pubsub.local_job import send_end, send_epoch
from tests.waiting import WITHIN_S, eventually
from tidewheel.progress import TimeDomain
from tidewheel.pubsub import EpochAssembler, Event, Subscription, UnknownTopic
from tidewheel.pubsub.gateway import TooManyClients
from tidewheel.pubsub.gateway.clients import Clients
from tidewheel.pubsub.gateway.topic_feed import OwnThread, TopicFeed
from tidewheel.pubsub.gateway.topic_request import TopicRequest


def times(domain: TimeDomain, events: Iterator[Event]) -> Iterator[int]:
    """The times of epochs."""
    assembler = EpochAssembler(domain)
    return (epoch.time for event in events for epoch in assembler.receive(event))


def threads() -> list[str]:
    """The threads of feeds."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tidewheel-gateway")]


def test_items_come_one_at_a_time_and_then_none() -> None:
    """Each when it is asked for; the end can be asked for again."""
    clients = Clients(1)
    with published("feed/a") as running:
        feed = clients.admit(TopicRequest("feed/a"), times)
        feed.opened.result(WITHIN_S)
        send_epoch(running, 0, ["a"])
        send_epoch(running, 1, ["b"])
        assert [feed.next().result(WITHIN_S) for _ in range(2)] == [0, 1]
        waiting = feed.next()
        assert not waiting.done()
        send_end(running, 2)
        assert waiting.result(WITHIN_S) is None
        assert feed.next().result(WITHIN_S) is None
        feed.close()


def test_closing_ends_what_waits_and_leaves_nothing() -> None:
    """No thread, no subscriber, no client."""
    clients = Clients(2)
    with published("feed/b") as running:
        feed = clients.admit(TopicRequest("feed/b"), times)
        feed.opened.result(WITHIN_S)
        running.wait_for_subscribers(1, WITHIN_S)
        waiting = feed.next()
        feed.close()
        feed.close()
        assert waiting.result(WITHIN_S) is None
        assert feed.is_closed
        assert clients.wait_until_none(WITHIN_S)
        assert nobody_reads(running)
    assert eventually(lambda: not threads())


def test_who_leaves_while_it_is_being_connected_leaves_nothing() -> None:
    """The subscription is closed as soon as it is there, and until then its place is taken."""
    may_go_on, left = threading.Event(), threading.Event()
    with published("feed/c") as running:

        def subscribe() -> Subscription:
            assert may_go_on.wait(WITHIN_S)
            return TopicRequest("feed/c").subscribe()

        feed = TopicFeed(subscribe, times, lambda _: left.set())
        feed.close()
        assert feed.next().result(WITHIN_S) is None
        assert not left.is_set()
        may_go_on.set()
        assert left.wait(WITHIN_S)
        assert nobody_reads(running)
    assert eventually(lambda: not threads())


def test_an_error_is_raised_where_the_result_is_looked_at() -> None:
    """And the thread goes on, until it is stopped."""
    thread = OwnThread("tidewheel-gateway-test")
    with pytest.raises(ZeroDivisionError):
        thread.submit(lambda: 1 // 0).result(WITHIN_S)
    assert thread.submit(lambda: 1).result(WITHIN_S) == 1
    thread.stop()
    assert eventually(lambda: not threads())


def test_no_more_clients_than_there_may_be() -> None:
    """Who leaves makes room for another; at the end there is none for anybody."""
    clients = Clients(1)
    with published("feed/d"):
        first = clients.admit(TopicRequest("feed/d"), times)
        with pytest.raises(TooManyClients, match="1 clients read from this gateway already"):
            clients.admit(TopicRequest("feed/d"), times)
        first.close()
        assert clients.wait_until_none(WITHIN_S)
        second = clients.admit(TopicRequest("feed/nowhere"), times)
        with pytest.raises(UnknownTopic):
            second.opened.result(WITHIN_S)
        assert len(clients) == 1
        assert not clients.wait_until_none(0)
        clients.close()
        assert second.is_closed
        assert clients.wait_until_none(WITHIN_S)
        with pytest.raises(TooManyClients, match="is being stopped"):
            clients.admit(TopicRequest("feed/d"), times)
    assert eventually(lambda: not threads())
