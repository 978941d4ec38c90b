"""The calls by which the catalog feeds the publisher of its own topic."""

import asyncio
from typing import Any

from tests.kit.pubsub.called_publisher import Method
from tidewheel.pubsub.catalog.catalog import TopicEvent
from tidewheel.pubsub.catalog.catalog_topic import CatalogTopic
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent


class SlowPublisher:
    """A publisher that answers a call when a test says so."""

    def __init__(self) -> None:
        self.calls: list[list[FeedEvent]] = []
        self.answers: list[asyncio.Future[None]] = []

    @property
    def feed(self) -> Method:
        return Method(self._feed)

    async def _feed(self, events: list[FeedEvent]) -> None:
        self.calls.append(events)
        self.answers.append(asyncio.get_running_loop().create_future())
        await self.answers[-1]

    def times(self) -> list[list[Any]]:
        """The times of the batches of each call."""
        return [[event.time for event in events if isinstance(event, DataMessage)] for events in self.calls]


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def change(version: int) -> TopicEvent:
    return TopicEvent("published", "a", "job", 1, "IntegerDomain()", "any", "", version, str(version))


def test_a_publisher_is_called_again_only_when_it_has_answered() -> None:
    """Calls of an actor may overtake each other, so there is one at a time; changes wait for the next, in order."""

    async def scenario() -> None:
        publisher = SlowPublisher()
        topic = CatalogTopic("id", lambda: publisher)
        topic.open(0)
        await turns()
        for version in (1, 2, 3):
            topic.tell([change(version)])
        await turns()
        assert publisher.times() == [[]]
        publisher.answers[0].set_result(None)
        await turns()
        assert publisher.times() == [[], [1, 2, 3]]
        publisher.answers[1].set_result(None)
        await turns()
        topic.tell([change(4)])
        await turns()
        assert publisher.times() == [[], [1, 2, 3], [4]]
        publisher.answers[2].set_result(None)
        await turns()

    asyncio.run(scenario())


def test_a_new_publisher_is_told_nothing_of_before() -> None:
    """What a dead one was not told is in the version at which the new one starts."""
    publishers, killed = [SlowPublisher(), SlowPublisher()], list[Any]()

    async def scenario() -> None:
        topic = CatalogTopic("id", iter(publishers).__next__, killed.extend)
        topic.open(0)
        await turns()
        topic.tell([change(1)])
        topic.open(1)
        topic.tell([change(2)])
        await turns()
        publishers[0].answers[0].set_exception(ConnectionError("it is dead"))
        publishers[1].answers[0].set_result(None)
        await turns()
        assert [publisher.times() for publisher in publishers] == [[[]], [[2]]]
        assert killed == publishers[:1], "one that lives and has missed a change would be behind for ever"

    asyncio.run(scenario())
