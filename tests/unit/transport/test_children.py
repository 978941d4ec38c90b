"""The children of a pubend or relay, over sockets and by calls."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from tests.kit.exactly_once.linked import knowledge, pair
from tests.kit.messages import raises
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.messages.delivery_messages import Ack
from tidewheel.pubsub.messages.frames import CODEC, ChildMessage, Join, size_of
from tidewheel.pubsub.messages.wire import Rejected
from tidewheel.transport.call_link import CallChild
from tidewheel.transport.children import Children
from tidewheel.transport.frames import SIGN_OF_LIFE
from tidewheel.transport.stream_link import ParentLink

LONG_S = 60.0
SHORT_S = 0.001
JOIN = Join("child", None)


async def turns() -> None:
    """Let everybody do what can be done."""
    for _ in range(10):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so, with a deadline."""
    async with asyncio.timeout(LONG_S):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(SHORT_S)


class Heard:
    """The children of a parent, and what it has heard of them."""

    def __init__(self, waiting_bytes: int = 1 << 20) -> None:
        self.said: list[tuple[str, ChildMessage]] = []
        self.gone: list[tuple[str, str]] = []
        self.children = Children(
            CODEC,
            asyncio.get_running_loop(),
            lambda child, said: self.said.extend((child, message) for message in said),
            lambda child, why: self.gone.append((child, why)),
            waiting_bytes,
        )

    def tell(self, tick: int, size: int = 10, child: str = "child") -> None:
        self.children.tell([Outgoing(child, knowledge(tick, size))])


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def work() -> None:
        await scenario()

    asyncio.run(work())


def test_who_calls_is_told_what_there_is_as_soon_as_there_is_any() -> None:
    """What was told before the call, or all that is told in the next turn; nothing if there is nothing."""

    async def scenario() -> None:
        heard = Heard()
        children = heard.children
        assert await children.talk("child", [JOIN], 0.0) == []
        heard.tell(1)
        heard.tell(2)
        assert await children.talk("child", [], LONG_S) == [knowledge(1, 10), knowledge(2, 10)]
        waiting = asyncio.create_task(children.talk("child", [Ack(0, {})], LONG_S))
        await turns()
        assert not waiting.done()
        heard.tell(3)
        heard.tell(4)
        assert await waiting == [knowledge(3, 10), knowledge(4, 10)]
        assert await children.talk("child", [], SHORT_S) == []
        assert heard.said == [("child", JOIN), ("child", Ack(0, {}))]
        children.close()

    run(scenario)


def test_a_call_that_waits_makes_room_for_the_next() -> None:
    """So that a child that has something to say has one call more under way, and not many."""

    async def scenario() -> None:
        heard = Heard()
        await heard.children.talk("child", [JOIN], 0.0)
        first = asyncio.create_task(heard.children.talk("child", [], LONG_S))
        await turns()
        second = asyncio.create_task(heard.children.talk("child", [Ack(0, {})], LONG_S))
        assert await first == []
        heard.tell(1)
        assert await second == [knowledge(1, 10)]
        third = asyncio.create_task(heard.children.talk("child", [], LONG_S))
        await turns()
        heard.children.close()
        assert await third == []

    run(scenario)


def test_who_has_not_said_who_it_is_has_to() -> None:
    """As after its parent was started again; it would wait for ever otherwise."""

    async def scenario() -> None:
        heard = Heard()
        with raises(ProtocolError):
            await heard.children.talk("child", [Ack(0, {})], LONG_S)
        assert heard.said == []
        assert len(heard.children) == 0

    run(scenario)


def test_who_does_not_call_any_more_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while without a call; one that is in a call has not, however long that takes."""
    monkeypatch.setattr("tidewheel.transport.children.SILENT_S", 0.02)
    monkeypatch.setattr("tidewheel.transport.children._LOOK_S", 0.005)

    async def scenario() -> None:
        heard = Heard()
        for child in ("talks", "silent"):
            await heard.children.talk(child, [Join(child, None)], 0.0)
        talking = asyncio.create_task(heard.children.talk("talks", [], 5.0))
        await until(lambda: bool(heard.gone))
        assert heard.gone == [("silent", "it has not called for 0.02 s")]
        assert heard.children.names == ["talks"]
        heard.tell(1, child="talks")
        assert len(await talking) == 1
        await until(lambda: len(heard.gone) == 2)
        assert len(heard.children) == 0
        with raises(ProtocolError):
            await heard.children.talk("silent", [], 0.0)

    run(scenario)


def test_what_waits_for_a_call_is_bounded() -> None:
    """One message at least waits; what is beyond the bound is counted, and a rejection always has room."""
    child = CallChild(CODEC, lambda: 0.0, waiting_bytes=3000)
    assert child.tell(knowledge(1, 5000))
    assert not child.tell(knowledge(2, 1))
    rejected = Rejected(0, "why")
    assert child.tell(rejected)
    assert child.waiting_bytes == size_of(knowledge(1, 5000)) + size_of(rejected)
    assert (child.dropped, child.dropped_bytes) == (1, size_of(knowledge(2, 1)))
    assert asyncio.run(child.take(0.0)) == [knowledge(1, 5000), rejected]
    assert child.waiting_bytes == 0
    assert [child.tell(knowledge(tick, 900)) for tick in range(1, 5)] == [True, True, False, False]


def test_a_connection_takes_the_place_of_another() -> None:
    """Of a socket or of calls; its parent learns of that first, and is never told of one that it lets go of itself."""

    async def scenario() -> None:
        heard = Heard()
        children = heard.children
        with pair() as (ours, end), pair() as (other_ours, other_end):
            children.connect("child", ours)
            link = ParentLink(CODEC, end)
            link.say([JOIN])
            await until(lambda: heard.said == [("child", JOIN)])
            heard.tell(1)
            await until(lambda: link.read() == [knowledge(1, 10)])
            await children.talk("child", [JOIN], 0.0)
            assert heard.gone == [("child", "it has connected anew")]
            children.connect("child", other_ours)
            assert len(heard.gone) == 2
            other = ParentLink(CODEC, other_end)
            heard.tell(2)
            await until(lambda: other.read() == [knowledge(2, 10)])
            children.let_go("child")
            children.let_go("child")
            heard.tell(3)
            await until(lambda: not other.read() and other.is_lost)
            assert len(heard.gone) == 2
            assert len(children) == 0

    run(scenario)


def test_one_that_ends_its_connection_has_gone() -> None:
    """What it has said before is heard, and what was dropped of it stays counted."""

    async def scenario() -> None:
        heard = Heard(waiting_bytes=1000)
        ours, end = socket.socketpair()
        ours.setblocking(False)
        heard.children.connect("child", ours)
        for tick in range(1, 100):
            heard.tell(tick, 100_000)
        dropped = heard.children.dropped
        assert dropped > 50
        assert heard.children.waiting_bytes > 0
        end.setblocking(False)
        link = ParentLink(CODEC, end)
        link.say([JOIN])
        link.close()
        await until(lambda: bool(heard.gone))
        assert heard.said == [("child", JOIN)]
        assert heard.gone[0][0] == "child"
        assert "child" not in heard.children
        assert heard.children.dropped >= dropped

    run(scenario)


def test_children_are_shown_that_their_parent_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then, however often their parent looks."""
    monkeypatch.setattr("tidewheel.transport.children.SIGN_OF_LIFE_S", 0.05)

    async def scenario() -> None:
        children = Heard().children
        with pair() as (ours, end):
            children.connect("child", ours)
            link = ParentLink(CODEC, end)
            began_s, looks = asyncio.get_running_loop().time(), 0
            while link.read_bytes < 3 * len(SIGN_OF_LIFE):
                children.show_life()
                looks += 1
                assert link.read() == []
                await asyncio.sleep(SHORT_S)
            assert asyncio.get_running_loop().time() - began_s >= 0.1
            assert looks > 3
            children.close()

    run(scenario)
