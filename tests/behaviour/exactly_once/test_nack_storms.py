"""Many who miss the same: one question goes upstream, whatever they ask."""

from random import Random

import pytest

from tests.simulation.delivery.world import World
from tests.simulation.network import FAIR, Network

SUBSCRIBERS = 200


class Lossy(Network):
    """Loses what one sends to another, while it is told to."""

    lost: frozenset[str] | None = None

    def send(self, sender: str, receiver: str, what: object) -> None:
        """Send, or lose."""
        if self.lost is None or not {sender, receiver} >= self.lost:
            super().send(sender, receiver, what)  # type: ignore[arg-type]


def world_of(levels: int) -> tuple[World, Lossy, list[str]]:
    """Return a pubend, a chain of relays, and subscribers under the last, all of which have had one message."""
    network = Lossy(Random(0), FAIR)
    world = World(Random(0), network, 1)
    chain: list[str] = []
    for _ in range(levels):
        chain.append(world.add_relay(chain[-1] if chain else None))
    for _ in range(SUBSCRIBERS):
        world.add_subend(chain[-1] if chain else None, None, "publisher")
    world.look()
    network.run(0.5)
    world.pubends[0].publish(b"first")
    network.run(1.0)
    return world, network, chain


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_one_question_for_all(levels: int) -> None:
    """A message is lost on the way to the first relay: at each hop there is one nack, and then everybody has it."""
    world, network, chain = world_of(levels)
    before = [world.pubends[0].nacks, *(world.relays[name].nacks for name in chain)]
    network.lost = frozenset({"pubend 0", chain[0]})
    world.pubends[0].publish(b"lost")
    network.run(1.35)
    network.lost = None
    world.pubends[0].publish(b"later")
    network.run(3.0)
    after = [world.pubends[0].nacks, *(world.relays[name].nacks for name in chain)]
    asked = [now - then for now, then in zip(after, before, strict=True)]
    assert asked[:-1] == [1] * levels
    assert asked[-1] <= SUBSCRIBERS
    assert all([one.message for one in node.had] == [b"first", b"lost", b"later"] for node in world.subends.values())


def test_lost_below_the_relay() -> None:
    """All 200 lose a message on the last hop: the relay has it, and asks nobody."""
    world, network, (relay,) = world_of(1)
    before = world.pubends[0].nacks
    original = network.send
    network.send = (  # type: ignore[method-assign]
        lambda sender, receiver, what: (
            None if sender == relay and receiver != "pubend 0" else original(sender, receiver, what)
        )
    )
    world.pubends[0].publish(b"lost")
    network.run(1.35)
    network.send = original  # type: ignore[method-assign]
    network.run(3.0)
    assert world.pubends[0].nacks == before
    assert world.relays[relay].nacks <= 2 * SUBSCRIBERS
    assert all([one.message for one in node.had] == [b"first", b"lost"] for node in world.subends.values())
