"""The catalog actor's class, driven in this process without Ray."""

import asyncio
from dataclasses import replace
from typing import Any

from tests.kit.messages import raises
from tests.kit.pubsub.called_publisher import CalledPublisher
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import CATALOG_TOPIC, TopicInfo
from tidewheel.pubsub.catalog.catalog_actor import KNOWN_S, CatalogActor, CatalogRelays, RelayInfo
from tidewheel.pubsub.catalog.catalog_topic import CatalogTopic
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.transport.change_signal import ChangeSignal

LONG_S = 60.0


def topic(name: str, registration: str) -> TopicInfo:
    return TopicInfo(name, f"job {registration}", IntegerDomain(), (), registration)


class Fates:
    """Which registrations have dead publishers. Whoever watches one is told, and whoever asks."""

    def __init__(self, *dead: str) -> None:
        self._dead = set(dead)
        self._changed = ChangeSignal()
        self.watched: set[str] = set()

    def kill(self, registration: str) -> None:
        self._dead.add(registration)
        self._changed.notify()

    async def live(self, info: TopicInfo) -> bool:
        await asyncio.sleep(0)
        publisher = info.partitions[0] if info.partitions else None
        return info.registration not in self._dead and not getattr(publisher, "is_dead", False)

    async def death(self, info: TopicInfo) -> str:
        self.watched.add(info.registration)
        try:
            await self._changed.wait_until(lambda: info.registration in self._dead, LONG_S)
        finally:
            self.watched.discard(info.registration)
        return "it was killed"

    async def never(self, info: TopicInfo) -> str:
        """Watch in vain, so that only who asks finds out."""
        await asyncio.sleep(LONG_S)
        return ""


def catalog(fates: Fates, publishers: list[CalledPublisher] | None = None, *, watch: bool = True) -> CatalogActor:
    """Return a catalog; publishers of its own topic are appended to the list."""

    def start() -> Any:
        made = CalledPublisher()
        if publishers is not None:
            publishers.append(made)
        return made

    death = fates.death if watch else fates.never
    return CatalogActor(fates.live, death, lambda incarnation: CatalogTopic(incarnation, start, lambda _: None))


async def turns() -> None:
    """Let everybody do what can be done."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_lookup_waits_until_the_topic_exists() -> None:
    """It answers as soon as somebody registers the topic, and with None when its time is over."""

    async def scenario() -> None:
        actor = catalog(Fates())
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
        actor = catalog(Fates("dead"), watch=False)
        await actor.register(topic("a", "dead"))
        await actor.register(topic("b", "live"))
        assert await actor.topics() == [topic("b", "live")]
        await actor.register(topic("a", "dead"))
        waiting = asyncio.create_task(actor.lookup("a", LONG_S))
        await turns()
        await actor.register(topic("a", "new"))
        assert await waiting == topic("a", "new")

    asyncio.run(scenario())


def test_a_name_is_free_only_when_its_owner_is_dead() -> None:
    """A living owner keeps the name, and a dead one loses it."""

    async def scenario() -> None:
        fates = Fates()
        actor = catalog(fates, watch=False)
        await actor.register(topic("a", "old"))
        with raises(DeliveryError):
            await actor.register(topic("a", "new"))
        fates.kill("old")
        await actor.register(topic("a", "new"))
        assert await actor.lookup("a", LONG_S) == topic("a", "new")
        assert await actor.retract("a", "new")
        assert await actor.topics() == []

    asyncio.run(scenario())


def test_of_two_jobs_that_take_over_a_dead_name_at_once_one_wins() -> None:
    """Both find the old owner dead; the second to act does not push out the first."""

    async def scenario() -> None:
        actor = catalog(Fates("old"), watch=False)
        await actor.register(topic("a", "old"))
        results = await asyncio.gather(
            actor.register(topic("a", "one")), actor.register(topic("a", "two")), return_exceptions=True
        )
        assert [type(result) for result in results] == [type(None), DeliveryError]

    asyncio.run(scenario())


def test_the_dead_are_retracted_though_nobody_asks() -> None:
    """Who watches a topic's publishers says when one is dead; nothing that has gone is watched any longer."""

    async def scenario() -> None:
        fates = Fates()
        actor = catalog(fates)
        for name in ("a", "b"):
            await actor.register(topic(name, name))
            await actor.register(topic(name, name))
        await turns()
        assert fates.watched == {"a", "b"}
        fates.kill("a")
        await turns()
        listing = await actor.listing()
        assert [event.topic for event in listing.published] == ["b"]
        assert listing.version == 3
        assert await actor.retract("b", "b")
        await turns()
        assert not fates.watched

    asyncio.run(scenario())


def test_a_job_that_holds_its_topic_hears_when_it_is_not_its_own() -> None:
    """The call is answered when the topic is retracted or unknown, or else when its time is over."""

    async def scenario() -> None:
        actor = catalog(Fates())
        assert not await actor.hold("a", "first", LONG_S)
        await actor.register(topic("a", "first"))
        assert await actor.hold("a", "first", 0.001)
        assert not await actor.hold("a", "second", LONG_S)
        holding = asyncio.create_task(actor.hold("a", "first", LONG_S))
        await turns()
        assert not holding.done()
        await actor.retract("a", "first")
        assert not await holding

    asyncio.run(scenario())


def test_the_catalog_is_a_topic() -> None:
    """Its publisher is started when somebody looks for it, told what changes from then on, and replaced if it dies."""

    async def scenario() -> None:
        publishers: list[CalledPublisher] = []
        actor = catalog(Fates(), publishers)
        await actor.register(topic("a", "first"))
        assert not publishers
        info = await actor.lookup(CATALOG_TOPIC, LONG_S)
        assert info is not None
        assert info.registration == (await actor.listing()).incarnation
        assert await actor.lookup(CATALOG_TOPIC, LONG_S) == info
        await actor.register(topic("b", "second"))
        await actor.retract("a", "first", "it was stopped")
        await turns()
        [publisher] = publishers
        assert [(time, event.event, event.topic, event.reason) for time, event in publisher.epochs()] == [
            (2, "published", "b", ""),
            (3, "retracted", "a", "it was stopped"),
        ]
        publisher.is_dead = True
        again = await actor.lookup(CATALOG_TOPIC, LONG_S)
        assert again is not None
        assert again.partitions == (publishers[1],)
        await actor.retract("b", "second")
        await turns()
        assert [time for time, _ in publishers[1].epochs()] == [4]

    asyncio.run(scenario())


def test_a_publisher_that_does_not_answer_is_no_trouble_for_the_catalog() -> None:
    """What it is told is told; that it fails is logged, and the catalog goes on."""

    async def scenario() -> None:
        publishers: list[CalledPublisher] = []
        actor = catalog(Fates(), publishers)
        await actor.lookup(CATALOG_TOPIC, LONG_S)
        publishers[0].is_dead = True
        await actor.register(topic("a", "first"))
        await turns()
        assert await actor.topics() == [topic("a", "first")]

    asyncio.run(scenario())


def test_relays_of_a_topic_are_known_as_long_as_it_is() -> None:
    """A catalog that does not know the topic takes their word; a relay of an earlier life learns that it is over."""

    async def scenario() -> None:
        actor = catalog(Fates())
        first, second = (RelayInfo(f"relay {number}", "a", number, "here", f"actor {number}", 0) for number in "12")
        assert await actor.announce(first)
        assert await actor.parent("a", "1", "here") == "actor 1"
        await actor.register(topic("a", "1"))
        assert not await actor.announce(second)
        assert await actor.parent("a", "2", "here") is None
        assert await actor.retract("a", "1")
        assert await actor.parent("a", "1", "here") is None
        await actor.register(topic("a", "2"))
        assert not await actor.announce(first)
        assert await actor.announce(second)
        assert await actor.parent("a", "2", "here") == "actor 2"
        await actor.forget_relay("relay 2")
        assert await actor.parent("a", "2", "here") is None

    asyncio.run(scenario())


# ---------------------------------------------------------------------- relays


def relays_of(*relays: tuple[str, str, int]) -> CatalogRelays:
    """Return what is known when relays have been heard at 0: the name, the node and the children of each."""
    known = CatalogRelays()
    for name, node, children in relays:
        known.announce(relay(name, node, children), now_s=0.0)
    return known


def relay(name: str, node: str, children: int, registration: str = "first") -> RelayInfo:
    return RelayInfo(name, "ranks", registration, node, f"actor {name}", children)


def parents(known: CatalogRelays, node: str, count: int, now_s: float = 1.0) -> str:
    """Return whom so many subscribers of one node get, one after the other."""
    return "".join(known.parent("ranks", "first", node, now_s)[-1] for _ in range(count))


def test_who_has_the_fewest_children_gets_the_next() -> None:
    """Those count that it was just sent, until it says itself how many it has."""
    known = relays_of(("a", "here", 2), ("b", "here", 0), ("c", "there", 0))
    assert parents(known, "here", 5) == "bbaba"
    known.announce(relay("b", "here", 1), now_s=2.0)
    assert parents(known, "here", 3, now_s=2.0) == "bbb"


def test_a_relay_elsewhere_is_better_than_none() -> None:
    """Any with the fewest children."""
    known = relays_of(("a", "here", 2), ("b", "there", 0))
    assert parents(known, "elsewhere", 4) == "bbab"


def test_a_relay_below_others_gets_the_subscribers() -> None:
    """Those above have it as their child; on other nodes they are better than none."""
    known = relays_of(("a", "here", 0), ("b", "there", 0))
    known.announce(replace(relay("c", "here", 5), depth=1), now_s=0.0)
    assert parents(known, "here", 3) == "ccc"
    assert parents(known, "there", 2) == "bb"
    assert parents(known, "elsewhere", 1) == "c"


def test_a_full_relay_gets_subscribers_only_if_all_are_full() -> None:
    """It is full with the subscribers that were just sent to it, too; above others as below them."""
    known = CatalogRelays()
    known.announce(replace(relay("a", "here", 2), max_children=4), now_s=0.0)
    known.announce(replace(relay("b", "here", 1), max_children=3, depth=1), now_s=0.0)
    assert parents(known, "here", 6) == "bbaabb"


def test_it_is_for_one_life_of_one_topic() -> None:
    """Others have nobody, also after that life has ended."""
    known = relays_of(("a", "here", 0))
    assert known.parent("ranks", "second", "here", 1.0) is None
    assert known.parent("others", "first", "here", 1.0) is None
    known.announce(relay("b", "here", 0, "second"), 1.0)
    known.forget_topic("first")
    assert known.parent("ranks", "first", "here", 1.0) is None
    assert known.parent("ranks", "second", "here", 1.0) == "actor b"


def test_who_is_not_heard_is_forgotten() -> None:
    """And who was found dead, or says so, at once; until it says that it is there."""
    known = relays_of(("a", "here", 0), ("b", "here", 0), ("c", "here", 9))
    assert known.parent("ranks", "first", "here", 1.0, avoid="actor a") == "actor b"
    assert parents(known, "here", 3) == "bbb"
    known.forget("b")
    known.forget("b")
    assert parents(known, "here", 1) == "c"
    known.announce(relay("a", "here", 0), now_s=1.0)
    assert parents(known, "here", 2, now_s=KNOWN_S + 1) == "aa"
    assert known.parent("ranks", "first", "here", KNOWN_S + 1.1) is None
    assert not known._known
