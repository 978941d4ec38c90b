"""The publisher actors of two partitions, in this process, and a job that begins again and deals records out anew."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.exactly_once.journal import next_generation
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.messages.encoded_message import encode, encode_batch
from tidewheel.pubsub.messages.wire import LowerFrontierUpdate, WorkerPosition
from tidewheel.pubsub.publishers.durable_delivery import DurableDelivery
from tidewheel.pubsub.publishers.durable_pubend import DurablePubend
from tidewheel.pubsub.publishers.epochs_again import differing_epochs, first_difference
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor

DOMAIN = IntegerDomain()
PARTITIONS = 2
EPOCHS = 4
DEADLINE_S = 30.0


def actors(folder: Path) -> list[PublisherActor]:
    makes = [
        partial(DurableDelivery, folder / str(at), LogIdentity("topic", at, PARTITIONS, "integers"), DOMAIN, "node")
        for at in range(PARTITIONS)
    ]
    return [PublisherActor("topic", at, make) for at, make in enumerate(makes)]


def feed(
    cores: list[DurablePubend], dealt: Callable[[int], int], changed: int | None = None, most: int = PARTITIONS
) -> None:
    """Have workers send all epochs: those of the first ``most`` partitions."""
    for epoch in range(EPOCHS):
        parts: list[list[str]] = [[] for _ in cores]
        for number in range(10):
            text = f"new in {epoch}" if epoch == changed and not number else f"record {number} of {epoch}"
            parts[dealt(number)].append(text)
        for core, part in list(zip(cores, parts, strict=True))[:most]:
            core.feed([encode(encode_batch(epoch, part)), encode(LowerFrontierUpdate([(epoch, -1), (epoch + 1, 1)]))])


async def live(publishers: list[PublisherActor], dealt: Callable[[int], int], changed: int | None) -> Any:
    """Publish each epoch, from a new generation on if the logs have anything; return what the comparison finds."""
    generation = next_generation(DOMAIN, [await publisher.open() for publisher in publishers])
    cores = [publisher._durable.core for publisher in publishers]
    for core in cores:
        core.begin(WorkerPosition([0], {}, generation=generation))
    waiting = [asyncio.create_task(one.came_again(generation.number, DEADLINE_S)) for one in publishers]
    feed(cores, dealt, changed)
    for publisher in publishers:
        assert await publisher.reached(EPOCHS, DEADLINE_S)
        publisher.partition.delivery.connections.changed.notify()
    if not generation.number:
        return None
    came: list[Any] = [await one for one in waiting]
    logged = [await publisher.logged(range(EPOCHS)) for publisher in publishers]
    differing = differing_epochs(DOMAIN, came, logged)
    found = [await publisher.compared(differing) for publisher in publishers]
    assert all(core.again is None for core in cores)
    return came, differing, first_difference(found)


async def goes_back_twice(folder: Path) -> Any:
    """Have a job go back, and again once one of its workers has sent everything again; return what is compared."""
    publishers = actors(folder)
    try:
        assert await live(publishers, lambda number: number % 2, None) is None
        cores = [publisher._durable.core for publisher in publishers]
        generation = next_generation(DOMAIN, [await publisher.place(DEADLINE_S) for publisher in publishers])
        cores[0].begin(WorkerPosition([0], {}, generation=generation))
        feed(cores, lambda number: number % 2, most=1)
        generation = next_generation(DOMAIN, [await publisher.place(DEADLINE_S) for publisher in publishers])
        waiting = [asyncio.create_task(one.came_again(generation.number, DEADLINE_S)) for one in publishers]
        await asyncio.sleep(0)  # they look before the workers begin
        for core in cores:
            core.begin(WorkerPosition([0], {}, generation=generation))
        feed(cores, lambda number: number // 9)
        for publisher in publishers:
            publisher.partition.delivery.connections.changed.notify()
        came: list[Any] = [await one for one in waiting]
        return differing_epochs(DOMAIN, came, [await publisher.logged(range(EPOCHS)) for publisher in publishers])
    finally:
        for publisher in publishers:
            await publisher.close()


async def lives(folder: Path, first: int, changed: int | None) -> Any:
    found = None
    for dealt, change in ((lambda number: number % 2, None), (lambda number: number // first, changed)):
        publishers = actors(folder)
        try:
            found = await live(publishers, dealt, change)
        finally:
            for publisher in publishers:
                await publisher.close()
    return found


def run(scenario: Awaitable[Any]) -> Any:
    async def within() -> Any:
        return await asyncio.wait_for(scenario, 2 * DEADLINE_S)

    return asyncio.run(within())


@pytest.mark.parametrize("first", [5, 9])
def test_records_from_other_workers_are_the_same(tmp_path: Path, first: int) -> None:
    """All epochs come again, from other partitions, and none differs."""
    came, differing, difference = run(lives(tmp_path, first, None))
    assert set(came[0]) == set(range(EPOCHS))
    assert (differing, difference) == ([], None)


def test_another_record_is_named_with_its_partition(tmp_path: Path) -> None:
    """Partition 0 has logged the record that has not come."""
    _, differing, difference = run(lives(tmp_path, 5, 2))
    assert differing == [2]
    assert difference is not None
    assert (difference[0], difference[1].text) == (0, "'record 0 of 2'")


def test_only_what_comes_in_the_last_life_is_compared(tmp_path: Path) -> None:
    """A worker had sent everything again when the job went back once more, and then others send its records."""
    assert run(goes_back_twice(tmp_path)) == []
