"""The publisher actor's class, driven in this process without Ray."""

import asyncio
import logging
import subprocess
import sys
from functools import partial

import pytest

from tests.kit.messages import raises
from tidewheel.progress import IntegerDomain, ProtocolError
from tidewheel.pubsub.catalog.catalog_topic import CatalogPublisher
from tidewheel.pubsub.messages.frames import ChildMessage, Join
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    Failed,
    LowerFrontierUpdate,
    Message,
    PartitionEnded,
    Rejected,
)
from tidewheel.pubsub.protocol.fetched import opened
from tidewheel.pubsub.publishers.live_delivery import LiveDelivery
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor

LONG_S = 60.0


class Clock:
    """A clock that tests turn."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def data(time: int) -> DataMessage:
    return DataMessage(time, b"x", "pickle", 1)


def actor(clock: Clock | None = None) -> CatalogPublisher:
    """An actor that is fed by calls."""
    return CatalogPublisher(
        partial(LiveDelivery, "ranks", IntegerDomain(), 10_000, lease_s=60.0, clock=clock or Clock())
    )


class Polling:
    """A subscriber without a connection."""

    def __init__(self, publisher: PublisherActor, name: str = "s") -> None:
        self._publisher = publisher
        self._name = name
        self._received = 0
        self._said: list[ChildMessage] = [Join(name, None)]

    async def poll(self, timeout_s: float = LONG_S, *, loses_reply: bool = False) -> list[Message]:
        """Return what comes next, which says that what came before has arrived."""
        said, self._said = self._said, []
        told = await self._publisher.talk(self._name, said, timeout_s, self._received)
        if loses_reply:
            told = await self._publisher.talk(self._name, [], timeout_s, self._received, True)
        self._received += len(told)
        return [numbered.message for numbered in opened(told)]


def test_a_poll_waits_for_news() -> None:
    """It returns as soon as something is published, and with nothing when its time is over."""

    async def scenario() -> None:
        publisher = actor()
        await publisher.attach("s")
        polling = Polling(publisher)
        assert len(await polling.poll()) == 1
        assert await polling.poll(0.001) == []
        waiting = asyncio.create_task(polling.poll())
        await asyncio.sleep(0)
        await publisher.feed([data(0)])
        assert await waiting == [data(0)]

    asyncio.run(scenario())


def test_a_lost_reply_is_sent_again() -> None:
    """Messages come again as long as they have not arrived."""

    async def scenario() -> None:
        publisher = actor()
        await publisher.attach("s")
        polling = Polling(publisher)
        assert len(await polling.poll(loses_reply=True)) == 1
        assert await polling.poll(0.001) == []

    asyncio.run(scenario())


def test_detaching_wakes_the_poll_that_waits() -> None:
    """So a subscription that is closed from another thread ends at once; one that calls on is told."""

    async def scenario() -> None:
        publisher = actor()
        await publisher.attach("s")
        polling = Polling(publisher)
        await polling.poll()
        waiting = asyncio.create_task(polling.poll())
        await asyncio.sleep(0)
        await publisher.detach("s")
        assert await waiting == []
        assert isinstance((await polling.poll())[0], Rejected)

    asyncio.run(scenario())


def test_a_subscriber_that_does_not_poll_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """After the lease it is gone, whatever the others do; if it comes back it is told."""

    async def scenario() -> None:
        clock = Clock()
        publisher = actor(clock)
        await publisher.attach("s")
        await publisher.attach("other")
        clock.now_s = 59.0
        await Polling(publisher, "other").poll()
        clock.now_s = 61.0
        await publisher.feed([data(0)])
        assert (await publisher.statistics())["subscribers"] == 1
        [told] = await Polling(publisher).poll()
        assert isinstance(told, Rejected)
        assert "given up" in told.reason

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert "gives up subscriber s" in caplog.text


def test_drained_waits_for_the_last_acknowledgement() -> None:
    """It tells when the partition has ended and every subscriber has the end."""

    async def scenario() -> None:
        publisher = actor()
        await publisher.attach("s")
        assert not await publisher.drained(0.001)
        assert not await publisher.ended(0.001)
        await publisher.feed([LowerFrontierUpdate([(0, -1)])])
        assert await publisher.ended(LONG_S)
        waiting = asyncio.create_task(publisher.drained(LONG_S))
        messages = await Polling(publisher).poll()
        assert isinstance(messages[-1], PartitionEnded)
        assert not waiting.done()
        await publisher.detach("s")
        assert await waiting

    asyncio.run(scenario())


def test_waiting_for_subscribers() -> None:
    """The answer is how many there are, as soon as there are enough or when the time is over."""

    async def scenario() -> None:
        publisher = actor()
        assert await publisher.wait_for_subscribers(1, 0.001) == 0
        waiting = asyncio.create_task(publisher.wait_for_subscribers(2, LONG_S))
        for name in ("a", "b"):
            await publisher.attach(name)
        assert await waiting == 2

    asyncio.run(scenario())


def test_impossible_events_fail_the_topic() -> None:
    """The worker gets the error, and so do the subscribers."""

    async def scenario() -> None:
        publisher = actor()
        await publisher.attach("s")
        with raises(ProtocolError):
            await publisher.feed([LowerFrontierUpdate([(0, -1), (1, 1)]), data(0)])
        failure = (await Polling(publisher).poll())[-1]
        assert isinstance(failure, Failed)
        assert "time 0" in failure.reason

    asyncio.run(scenario())


def test_failing_wakes_the_subscribers() -> None:
    """A failure of the job reaches a poll that waits."""

    async def scenario() -> None:
        publisher = actor()
        await publisher.attach("s")
        polling = Polling(publisher)
        await polling.poll()
        waiting = asyncio.create_task(polling.poll())
        await asyncio.sleep(0)
        await publisher.fail("it broke")
        assert await waiting == [Failed("it broke")]
        await publisher.ping()

    asyncio.run(scenario())


BEGIN = """
import gc, logging
from tidewheel.host.log_lines import LogSettings
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor
PublisherActor("t", 0, lambda: None, LogSettings(logging.INFO, "text"))
assert gc.get_freeze_count() > 10_000, gc.get_freeze_count()
"""


def test_its_process_does_not_search_its_modules_for_garbage() -> None:
    """That would hold up each live reader for as long as it takes to look through all of Ray, every few seconds."""
    done = subprocess.run([sys.executable, "-c", BEGIN], check=False, capture_output=True, text=True, timeout=LONG_S)
    assert done.returncode == 0, done.stderr
