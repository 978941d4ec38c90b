"""How a relay or subend gets to its parent."""

import asyncio
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

from tests.kit.exactly_once.linked import pair
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.frames import Join
from tidewheel.pubsub.subscribers.parents import Parent, ParentGone, await_parent, find_parent
from tidewheel.transport.call_link import CallParent
from tidewheel.transport.stream_link import ParentLink

WAYS = ["thread", "loop"]


class Offer:
    """Where one can connect to from one node."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.may = threading.Event()
        self.may.set()

    def connect(self, node: str) -> Any:
        self.may.wait()
        return self._connection if node == "here" else None


@dataclass
class Called:
    """A method of an actor; what a call of it answers."""

    answer: Any
    made: list[tuple[Any, ...]] = field(default_factory=list)

    def remote(self, *arguments: Any) -> "Called":
        self.made.append(arguments)
        return self

    def future(self) -> "Future[Any]":
        future: Future[Any] = Future()
        if isinstance(self.answer, Exception):
            future.set_exception(self.answer)
        elif self.answer is not None:
            future.set_result(self.answer[0])
        return future


class Actor:
    """A handle; ``answer`` is None, an error, or a tuple with what `attach` returns."""

    def __init__(self, answer: Any) -> None:
        self.attach = Called(answer)
        self.talk = Called(None)


def found(way: str, actor: Actor, node: str = "here") -> Parent:
    if way == "thread":
        return find_parent(actor, "child", node)
    return asyncio.run(await_parent(actor, "child", node))


@pytest.mark.parametrize("way", WAYS)
def test_over_a_socket_on_the_same_node_and_by_calls_otherwise(way: str) -> None:
    """Also where there are no sockets at all."""
    with pair() as (ours, _):
        near = Actor((Offer(ours),))
        parent = found(way, near)
        assert isinstance(parent, ParentLink)
        assert near.attach.made == [("child",)]
        far = [Actor((Offer(ours),)), Actor((None,))]
        for actor in far:
            parent = found(way, actor, "elsewhere")
            assert isinstance(parent, CallParent)
            parent.say([Join("child", None)])
            assert actor.talk.made == [("child", [Join("child", None)], 0.0)]
            parent.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("error", "expected", "message", "is_for_good"),
    [
        (ActorDiedError(), ParentGone, "ActorDiedError: The actor died", True),
        (ActorUnavailableError("restarting", b"a" * 16), ParentGone, "restarting", False),
        (RayTaskError("f", "trace", ParentGone("no topic")).as_instanceof_cause(), ParentGone, "no topic", False),
        (RayTaskError("f", "trace", ProtocolError("what?")).as_instanceof_cause(), ProtocolError, "what?", None),
        (
            RayTaskError("f", "trace", KeyError("x")).as_instanceof_cause(),
            DeliveryError,
            "cannot be connected to",
            None,
        ),
    ],
    ids=["dead", "restarting", "not now", "refused", "broken"],
)
def test_why_it_does_not_answer(
    way: str, error: Exception, expected: type[Exception], message: str, is_for_good: bool | None
) -> None:
    """Whether that is for good; and what the actor itself says is raised as it is."""
    with pytest.raises(expected, match=message) as caught:
        found(way, Actor(error))
    assert type(caught.value) is expected
    assert getattr(caught.value, "is_for_good", None) is is_for_good


@pytest.mark.parametrize("way", WAYS)
def test_it_is_not_waited_for_for_ever(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That may be better the next time."""
    monkeypatch.setattr("tidewheel.pubsub.subscribers.parents.FOUND_WITHIN_S", 0.01)
    with pytest.raises(ParentGone, match=r"it has not answered for 0.01 s") as caught:
        found(way, Actor(None))
    assert not caught.value.is_for_good


def test_who_does_not_wait_any_more_leaves_nothing_open() -> None:
    """A connection that is made meanwhile is closed."""
    with pair() as (ours, _):
        offer = Offer(ours)
        offer.may.clear()

        async def scenario() -> None:
            finding = asyncio.create_task(await_parent(Actor((offer,)), "child", "here"))
            await asyncio.sleep(0.01)
            finding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await finding
            offer.may.set()
            async with asyncio.timeout(10):
                while ours.fileno() >= 0:  # noqa: ASYNC110 - a thread closes it
                    await asyncio.sleep(0.001)

        asyncio.run(scenario())
