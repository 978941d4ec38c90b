"""The end of a partition without a log at its publisher, and the return of subscribers of one that has died."""

import asyncio
from functools import partial

from tests.kit.messages import raises
from tests.kit.pubsub.actor_thread import DEADLINE_S, PLENTY, ended, epoch
from tidewheel.progress import IntegerDomain, ProtocolError
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.encoded_message import encode
from tidewheel.pubsub.messages.frames import Join
from tidewheel.pubsub.messages.wire import Generation, PartitionEnded, WorkerPosition
from tidewheel.pubsub.protocol.fetched import opened
from tidewheel.pubsub.protocol.topic_end import PartitionEnd
from tidewheel.pubsub.publishers.live_delivery import LiveDelivery
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor


def remembered(clock: list[float], lease_s: float = 0.05) -> PublisherActor:
    """Return the actor of a partition of a job with snapshots."""
    make = partial(
        LiveDelivery, "ranks", IntegerDomain(), PLENTY, is_remembered=True, lease_s=lease_s, clock=lambda: clock[0]
    )
    return PublisherActor("ranks", 0, make)


def test_a_subscriber_that_comes_again_may_repeat_that() -> None:
    """Perhaps the answer was lost. Once it is connected, another one of its name is an error, as before."""

    async def scenario() -> None:
        actor = remembered([0.0])
        await actor.go_back(False)
        for _ in range(2):
            await actor.attach("s", again=True)
        partition = actor.live
        partition.begin(WorkerPosition([0], {}, 7, Generation(1), 9))
        partition.feed([encode(event) for event in epoch(0)])
        await actor.attach("s", again=True)
        told = await actor.talk("s", [Join("s", None)], 0.0)
        assert len(told) == 3
        with raises(ProtocolError):
            await actor.attach("s", again=True)

    asyncio.run(scenario())


def test_the_end_is_known_when_subscribers_have_read_everything() -> None:
    """Or a moment later: a slow one does not hold up the end. It ends when it is told to."""

    async def scenario() -> None:
        actor = remembered([0.0])
        partition = actor.live
        partition.begin(WorkerPosition([0], {}))
        partition.attach("here/s", DeliveryOptions())
        assert await actor.known_end(0, 0.0, None) is None
        partition.feed([encode(event) for event in (*epoch(0), ended(1))])
        assert partition.confirmed().messages == 3
        known = await actor.known_end(0, 0.0, "here")
        assert known == PartitionEnd(3, 0, ("here/s",))
        waits = asyncio.create_task(actor.known_end(0, 0.0, None))
        assert not await actor.ended(0.0)
        assert await waits == known
        await actor.go_back(False)
        assert await actor.known_end(1, 0.0, None) is None
        partition.begin(WorkerPosition([], {}, 3, Generation(1), 3))
        known = await actor.known_end(1, 0.0, "here")
        assert known == PartitionEnd(4, 1, ("here/s",))
        assert not await actor.end({0: known}, 0.0)
        assert await actor.ended(0.0)
        told = opened(await actor.talk("here/s", [Join("here/s", None)], 0.0))
        assert isinstance(told[-1].message, PartitionEnded)

    asyncio.run(scenario())


def test_a_publisher_in_place_of_one_that_has_told_the_end_waits_for_its_subscribers() -> None:
    """As long as a lease: until then it is not drained."""

    async def scenario() -> None:
        known = PartitionEnd(3, 0, ("one", "other"))
        actor = remembered([0.0], lease_s=DEADLINE_S)
        assert not await actor.end({0: known}, 0.0)
        for name in known.readers:
            assert not await actor.drained(0.0)
            await actor.attach(name, again=True)
            await actor.talk(name, [Join(name, None)], 0.0)
            await actor.talk(name, [], 0.0, 3 + 2)
        assert await actor.drained(DEADLINE_S)
        actor = remembered([0.0])
        assert not await actor.end({0: known}, 0.0)
        assert await actor.drained(DEADLINE_S)

    asyncio.run(scenario())


def test_a_publisher_that_was_started_again_waits_for_the_subscribers_that_others_have() -> None:
    """It is not drained, though it has told everything to those that it knows, before they come back."""

    async def scenario() -> None:
        actor = remembered([0.0], lease_s=DEADLINE_S)
        assert await actor.go_back(False, ["s"]) == []
        partition = actor.live
        partition.begin(WorkerPosition([0], {}, generation=Generation(1)))
        partition.feed([encode(ended(0))])
        known = await actor.known_end(1, 0.0, None)
        assert known is not None
        assert not await actor.end({0: known}, 0.0)
        await actor.attach("s", again=True)
        assert actor.partition.expect(["another"]) == ["s"]
        told = await actor.talk("s", [Join("s", None)], 0.0)
        assert isinstance(opened(told)[-1].message, PartitionEnded)
        await actor.talk("s", [], 0.0, len(told))
        assert await actor.drained(DEADLINE_S)

    asyncio.run(scenario())
