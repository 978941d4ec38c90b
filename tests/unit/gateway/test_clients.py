"""Subscriptions that are read on threads of their own, and epochs that do not end but fill no memory."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from tests.behaviour.gateway.test_flight import in_thread, joined, ticket
from tests.kit.gateway.served import (
    connected,
    flights_of,
    nobody_reads,
    options_of,
    path_of,
    published,
    read_event,
    read_events,
    requested,
    served,
)
from tests.kit.messages import raises
from tests.kit.pubsub.local_job import send_end, send_epoch
from tests.waiting import WITHIN_S, eventually
from tidewheel.gateway import TooManyClients
from tidewheel.gateway.clients import Clients, OwnThread, TopicFeed, assembled
from tidewheel.gateway.topic_request import TopicRequest
from tidewheel.progress import IntegerDomain, TidewheelError, TimeDomain
from tidewheel.pubsub.errors import PublisherLost, UnknownTopic
from tidewheel.pubsub.messages.events import End, Epoch, Event
from tidewheel.pubsub.protocol.epochs import EpochAssembler
from tidewheel.pubsub.publications.publication import RunningPublication
from tidewheel.pubsub.subscribers.subscribing import subscribe
from tidewheel.pubsub.subscribers.subscription import Subscription


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
        feed = clients.admit(TopicRequest("feed/a").subscribe, times)
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


@pytest.mark.parametrize("is_local", [True, False])
def test_a_topic_that_was_stopped_ends_with_an_error(is_local: bool) -> None:
    """After its whole epochs, from a job of this process or of another: a client can tell it from a topic's end."""

    def reading() -> Subscription:
        subscription = subscribe("feed/stopped")
        subscription.is_local = is_local
        return subscription

    with published("feed/stopped") as running, closing(Clients(1).admit(reading, times)) as feed:
        feed.opened.result(WITHIN_S)
        send_epoch(running, 0, ["a"])
        running.finish("job 'j' was stopped", 0, on_purpose=True)
        assert feed.next().result(WITHIN_S) == 0
        with raises(PublisherLost):
            feed.next().result(WITHIN_S)


def test_closing_ends_what_waits_and_leaves_nothing() -> None:
    """No thread, no subscriber, no client."""
    clients = Clients(2)
    with published("feed/b") as running:
        feed = clients.admit(TopicRequest("feed/b").subscribe, times)
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

        def late() -> Subscription:
            assert may_go_on.wait(WITHIN_S)
            return subscribe("feed/c")

        feed = TopicFeed(late, times, lambda _: left.set())
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
        first = clients.admit(TopicRequest("feed/d").subscribe, times)
        with raises(TooManyClients):
            clients.admit(TopicRequest("feed/d").subscribe, times)
        first.close()
        assert clients.wait_until_none(WITHIN_S)
        second = clients.admit(TopicRequest("feed/nowhere").subscribe, times)
        with pytest.raises(UnknownTopic):
            second.opened.result(WITHIN_S)
        assert len(clients) == 1
        assert not clients.wait_until_none(0)
        clients.close()
        assert second.is_closed
        assert clients.wait_until_none(WITHIN_S)
        with raises(TooManyClients):
            clients.admit(TopicRequest("feed/d").subscribe, times)
    assert eventually(lambda: not threads())


def send_part(running: RunningPublication, batch: Any) -> None:
    """Publish a batch at time 0, which goes on."""
    running.handles[0].data(0, batch)
    running.handles[0].flush()


def test_ends_of_substreams_count_as_well() -> None:
    """However many keys have ended in an epoch that goes on."""
    with published("bounded/ends") as running, subscribe("bounded/ends") as subscription:
        for _ in range(20):
            running.handles[0].ends(0, ["x" * 1000])
        running.handles[0].flush()
        with raises(TidewheelError):
            list(assembled(IntegerDomain(), subscription, 10_000))


def test_what_is_complete_does_not_count() -> None:
    """However much comes, as long as little of it waits."""
    with published("bounded/a") as running, subscribe("bounded/a") as subscription:
        for time in range(20):
            send_epoch(running, time, ["x" * 1000])
        send_end(running, 20)
        found = list(assembled(IntegerDomain(), subscription, max_bytes=3000))
    assert [item.time for item in found if isinstance(item, Epoch)] == list(range(20))
    assert isinstance(found[-1], End)


def test_too_much_that_waits_is_an_error() -> None:
    """With how much there was, how much may be, and what to do."""
    with published("bounded/b") as running, subscribe("bounded/b") as subscription:
        for _ in range(3):
            send_part(running, ["x" * 1000])
        with raises(TidewheelError):
            list(assembled(IntegerDomain(), subscription, max_bytes=3000))


def test_it_is_one_error_for_one_client() -> None:
    """Who reads batches as they come, of the same topic, reads on."""
    with (
        published("bounded/c") as running,
        served(max_epoch_bytes=3000) as gateway,
        requested(gateway, path_of("bounded/c", query="epochs=false")) as other,
        requested(gateway, path_of("bounded/c")) as events,
        flights_of(gateway) as client,
    ):
        flying, errors = in_thread(lambda: client.do_get(ticket("bounded/c"), options_of(gateway.token)))
        running.wait_for_subscribers(3, WITHIN_S)
        for _ in range(3):
            send_part(running, pa.table({"n": ["x" * 1000]}))
        (error,) = read_events(events)
        assert (error["event"], "the gateway keeps 3,000" in error["data"]["message"]) == ("error", True)
        assert joined(flying)
        assert isinstance(errors[0], flight.FlightServerError)
        assert "the gateway keeps 3,000" in str(errors[0])
        assert connected(gateway, 1)
        assert [read_event(other)["event"] for _ in range(4)] == ["frontier", "batch", "batch", "batch"]
