"""A relay's way to one parent, which is found again whenever it is lost."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.kit.exactly_once.hosts import Times
from tests.kit.exactly_once.linked import pair
from tidewheel.host.retry import Retry
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.messages.delivery_messages import Ack, Downstream, KnowledgeMessage, Nack, Upstream
from tidewheel.pubsub.messages.frames import CODEC, ChildMessage, Join, decode_upstream, encode
from tidewheel.pubsub.relays import relay_parent
from tidewheel.pubsub.relays.relay_parent import RelayParent
from tidewheel.pubsub.subscribers.parents import HANGS_S, Parent, ParentGone, WatchedParent
from tidewheel.transport.frames import FrameReader
from tidewheel.transport.stream_link import ParentLink

LONG_S = 30.0
JOIN = Join("relay/a", None)
NACK = Nack(0, ((0, 5),), 10)
KNOWN = KnowledgeMessage(0, ((0, 5),))


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so, with a deadline."""
    async with asyncio.timeout(LONG_S):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


class World:
    """A parent that can be found, or not; each time that it is there is another connection."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._readers: list[FrameReader[ChildMessage]] = []
        self.ends: list[Any] = []
        self.error: Exception | None = None
        self.hangs: Callable[[], float] | None = None
        self.searches = 0
        self.told: list[Downstream] = []
        self.to_ask: list[Upstream] = []
        self.to_raise: Exception | None = None

    def find(
        self, _actor: Any, _child: str, _node: str, _most_at_once: int, registration: str | None, within_s: float
    ) -> Parent:
        assert registration is None, "the parent is a publisher"
        assert within_s == HANGS_S, "one that hangs is asked again"
        self.searches += 1
        if self.error is not None:
            raise self.error
        ours, end = self._stack.enter_context(pair(4096))
        self.ends.append(end)
        self._readers.append(FrameReader(end, decode_upstream))
        return ParentLink(CODEC, ours) if self.hangs is None else WatchedParent(ours, 1000, self.hangs)

    def kept(self) -> RelayParent:
        return RelayParent("actor", JOIN, "here", self._take, lambda: self.to_ask)

    def _take(self, told: list[Downstream]) -> None:
        self.told += told
        if self.to_raise is not None:
            error, self.to_raise = self.to_raise, None
            raise error

    def heard(self) -> list[ChildMessage]:
        """Return what the relay has said by the newest connection."""
        return list(self._readers[-1].read())

    def tell(self) -> None:
        self.ends[-1].sendall(b"".join(encode(KNOWN)))


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_parent, "AGAIN", Retry(first_pause_s=0.001, longest_pause_s=0.01))


@contextmanager
def world_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with ExitStack() as stack:
        world = World(stack)
        monkeypatch.setattr(relay_parent, "find_parent", world.find)
        yield world


def run(monkeypatch: pytest.MonkeyPatch, scenario: Callable[[World, RelayParent], Awaitable[None]]) -> None:
    """Have something happen between a relay and its parent, and let go of it in the end."""

    async def work() -> None:
        with world_of(monkeypatch) as world:
            kept = world.kept()
            await scenario(world, kept)
            await until(lambda: not [one for one in threading.enumerate() if one.name == "tidewheel-parent"])
            searches = world.searches
            kept.close()
            assert kept.parent is None
            await asyncio.sleep(0.02)
            assert world.searches == searches

    asyncio.run(work())


def test_a_parent_is_asked_again_whenever_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was acknowledged while it was away is kept, the newest word; what was asked is not, as it is asked anew."""

    async def scenario(world: World, kept: RelayParent) -> None:
        world.to_ask = [NACK]
        await until(lambda: kept.parent is not None)
        await until(lambda: world.heard() == [JOIN, NACK])
        world.tell()
        await until(lambda: world.told == [KNOWN])
        world.error = ParentGone("it starts")
        world.tell()
        world.ends[-1].close()
        await until(lambda: kept.parent is None)
        assert world.told == [KNOWN, KNOWN]
        kept.say([Ack(0, {"a": ((0, 5),)}), Nack(0, ((7, 9),), 10)])
        kept.say([Ack(0, {"a": ((0, 6),)})])
        world.error = None
        await until(lambda: kept.parent is not None)
        await until(lambda: world.heard() == [JOIN, NACK, Ack(0, {"a": ((0, 6),)})])
        kept.say([Ack(0, {"a": ((0, 7),)})])
        await until(lambda: world.heard() == [Ack(0, {"a": ((0, 7),)})])

    run(monkeypatch, scenario)


def test_what_it_does_not_take_is_written_when_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is lost."""

    async def scenario(world: World, kept: RelayParent) -> None:
        await until(lambda: kept.parent is not None)
        kept.say([Ack(0, {str(number) * 300: ((0, number),)}) for number in range(100)])
        heard: list[ChildMessage] = []

        def is_all_heard() -> bool:
            heard.extend(world.heard())
            return sum(len(said.acks) for said in heard if isinstance(said, Ack)) == 100

        await until(is_all_heard)

    run(monkeypatch, scenario)


def test_another_greeting_is_said_at_once_and_to_later_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has what the children of the relay want, and comes before what they ask."""
    other = Join("relay/a", Times(2))

    async def scenario(world: World, kept: RelayParent) -> None:
        await until(lambda: kept.parent is not None)
        kept.greet_again(other)
        kept.say([NACK])
        await until(lambda: world.heard() == [JOIN, other, NACK])
        world.to_ask = [NACK]
        world.ends[-1].close()
        await until(lambda: world.searches == 2 and kept.parent is not None)
        await until(lambda: world.heard() == [other, NACK])

    run(monkeypatch, scenario)


@pytest.mark.parametrize("is_for_good", [False, True])
def test_one_that_is_dead_is_looked_for_all_the_same(monkeypatch: pytest.MonkeyPatch, is_for_good: bool) -> None:
    """Whether it is the relay's business to give up is for others to say."""

    async def scenario(world: World, kept: RelayParent) -> None:
        world.error = ParentGone("it is dead", is_for_good=is_for_good)
        await until(lambda: world.searches > 5)
        assert kept.is_dead is is_for_good
        world.error = ProtocolError("not you")
        await until(lambda: world.searches > 8)
        world.error = None
        await until(lambda: kept.parent is not None)
        assert not kept.is_dead

    run(monkeypatch, scenario)


def test_what_nobody_understands_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it begins anew."""

    async def scenario(world: World, kept: RelayParent) -> None:
        await until(lambda: kept.parent is not None)
        world.to_raise = ProtocolError("what?")
        world.tell()
        await until(lambda: world.searches == 2)
        await until(lambda: kept.parent is not None)
        world.tell()
        await until(lambda: world.told == [KNOWN, KNOWN])

    run(monkeypatch, scenario)


def test_a_parent_that_hangs_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its connection stays open, and nothing comes of it."""
    monkeypatch.setattr(relay_parent, "SIGN_OF_LIFE_S", 0.005)
    now_s = [0.0]

    async def scenario(world: World, kept: RelayParent) -> None:
        world.hangs = lambda: now_s[0]
        await until(lambda: kept.parent is not None)
        now_s[0] += HANGS_S + 0.1
        await until(lambda: world.searches == 2)
        await until(lambda: kept.parent is not None)
        world.tell()
        await until(lambda: world.told == [KNOWN])

    run(monkeypatch, scenario)
