"""A publisher's actor after its job: it stays for subscribers that still read, and for no others."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.pubsub.actor_thread import DEADLINE_S, ActorThread, ended, epoch
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions

BLOCK = DeliveryOptions(slow="block")


@pytest.fixture
def publisher() -> Iterator[ActorThread]:
    with ActorThread(4_000_000) as running:
        yield running


class ExitedError(BaseException):
    """What Ray raises in an actor that ends itself."""


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an actor that ends itself raise an error that can be told."""
    import ray

    def exit_actor() -> None:
        raise ExitedError

    monkeypatch.setattr(ray.actor, "exit_actor", exit_actor)


async def retired(publisher: ActorThread) -> bool:
    """Wait until the actor ends itself."""
    try:
        await publisher.actor.retire("owner")
    except ExitedError:
        return True
    return False


def full(publisher: ActorThread, name: str, options: DeliveryOptions = BLOCK) -> Any:
    """Connect a subscriber that reads nothing, and end the topic while much waits for it."""
    reader = publisher.reader(name, options)
    publisher.run(lambda: publisher.partition.take([event for time in range(8) for event in epoch(time, 2_000_000)]))
    publisher.run(lambda: publisher.partition.take([ended(8)]))
    return reader


@pytest.mark.usefixtures("exits")
def test_an_actor_ends_when_everything_is_read() -> None:
    """And not before."""
    with ActorThread() as publisher:
        reader = full(publisher, "process/s")
        retiring = publisher.submit(retired(publisher))
        with pytest.raises(TimeoutError):
            retiring(0.2)
        while publisher.statistics().subscribers:
            reader.fetch(1.0)
        assert retiring(DEADLINE_S)
        reader.release()


@pytest.mark.usefixtures("exits")
def test_an_actor_does_not_wait_for_who_was_cut_off(publisher: ActorThread) -> None:
    """Though it has not taken the news of that."""
    reader = full(publisher, "process/s", DeliveryOptions())
    assert publisher.statistics().overflows == 1
    assert publisher.submit(retired(publisher))(DEADLINE_S)
    reader.release()


@pytest.mark.usefixtures("exits")
@pytest.mark.parametrize("process", ["other", "owner"])
def test_an_actor_gives_up_who_takes_nothing(process: str) -> None:
    """After a lease without any, unless it belongs to the process of the job: that may read later."""
    with ActorThread() as publisher:
        reader = full(publisher, f"{process}/s")
        retiring = publisher.submit(retired(publisher))
        for _ in range(3):
            publisher.advance(61.0)
        if process == "other":
            assert retiring(DEADLINE_S)
        else:
            with pytest.raises(TimeoutError):
                retiring(0.2)
            assert publisher.statistics().subscribers == 1
        reader.release()
