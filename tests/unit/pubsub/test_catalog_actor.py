"""The catalog actor's class, driven in this process without Ray."""

import asyncio

import pytest

from tidewheel.progress import IntegerDomain
from tidewheel.pubsub import DeliveryError, TopicInfo
from tidewheel.pubsub.catalog_actor import CatalogActor

LONG_S = 60.0


def topic(name: str, registration: str) -> TopicInfo:
    return TopicInfo(name, f"job {registration}", IntegerDomain(), (), registration)


def catalog(dead: set[str]) -> CatalogActor:
    async def live(info: TopicInfo) -> bool:
        await asyncio.sleep(0)
        return info.registration not in dead

    return CatalogActor(live)


def test_a_lookup_waits_until_the_topic_exists() -> None:
    """It answers as soon as somebody registers the topic, and with None when its time is over."""

    async def scenario() -> None:
        actor = catalog(set())
        assert await actor.lookup("a", 0.001) is None
        waiting = asyncio.create_task(actor.lookup("a", LONG_S))
        await asyncio.sleep(0)
        await actor.register(topic("b", "1"))
        await actor.register(topic("a", "2"))
        assert await waiting == topic("a", "2")

    asyncio.run(scenario())


def test_the_dead_are_neither_found_nor_listed() -> None:
    """A topic of which a publisher is dead is retracted when somebody asks, and a lookup waits for its successor."""

    async def scenario() -> None:
        actor = catalog({"dead"})
        await actor.register(topic("a", "dead"))
        await actor.register(topic("b", "live"))
        assert await actor.topics() == [topic("b", "live")]
        await actor.register(topic("a", "dead"))
        waiting = asyncio.create_task(actor.lookup("a", LONG_S))
        for _ in range(5):
            await asyncio.sleep(0)
        await actor.register(topic("a", "new"))
        assert await waiting == topic("a", "new")

    asyncio.run(scenario())


def test_a_name_is_free_only_when_its_owner_is_dead() -> None:
    """A living owner keeps the name, and a dead one loses it."""

    async def scenario() -> None:
        dead: set[str] = set()
        actor = catalog(dead)
        await actor.register(topic("a", "old"))
        with pytest.raises(DeliveryError, match="'job old'"):
            await actor.register(topic("a", "new"))
        dead.add("old")
        await actor.register(topic("a", "new"))
        assert await actor.lookup("a", LONG_S) == topic("a", "new")
        assert await actor.retract("a", "new")
        assert await actor.topics() == []

    asyncio.run(scenario())


def test_of_two_jobs_that_take_over_a_dead_name_at_once_one_wins() -> None:
    """Both find the old owner dead; the second to act does not push out the first."""

    async def scenario() -> None:
        actor = catalog({"old"})
        await actor.register(topic("a", "old"))
        results = await asyncio.gather(
            actor.register(topic("a", "one")), actor.register(topic("a", "two")), return_exceptions=True
        )
        assert [type(result) for result in results] == [type(None), DeliveryError]

    asyncio.run(scenario())
