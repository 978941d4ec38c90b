"""Ways to a parent, found, and looked for again when the parent is lost."""

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

from tests.kit.exactly_once.linked import pair
from tests.kit.messages import raises
from tests.waiting import WITHIN_S
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.messages.delivery_messages import Downstream, KnowledgeMessage, Nack
from tidewheel.pubsub.messages.frames import ChildMessage, Join, encode
from tidewheel.pubsub.subscribers.parents import (
    HANGS_S,
    RESTARTS_WITHIN_S,
    KeptParent,
    ParentGone,
    Refused,
    WatchedParent,
    find_parent,
)
from tidewheel.transport.call_link import CallParent
from tidewheel.transport.frames import SIGN_OF_LIFE
from tidewheel.transport.stream_link import ParentLink

GREETING = Join("reader", None)
KNOWN = KnowledgeMessage(0, ((0, 5),))
ASKED = Nack(0, ((5, 6),), 1)


class Offer:
    """Where one can connect to from one node."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def connect(self, node: str) -> Any:
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


def test_over_a_socket_on_the_same_node_and_by_calls_otherwise() -> None:
    """Also where there are no sockets at all."""
    with pair() as (ours, _):
        near = Actor((Offer(ours),))
        parent = find_parent(near, "child", "here")
        assert isinstance(parent, ParentLink)
        assert near.attach.made == [("child",)]
        far = [Actor((Offer(ours),)), Actor((None,))]
        for actor in far:
            parent = find_parent(actor, "child", "elsewhere")
            assert isinstance(parent, CallParent)
            parent.say([Join("child", None)])
            assert actor.talk.made == [("child", [Join("child", None)], 0.0)]
            parent.close()


@pytest.mark.parametrize(
    ("error", "expected", "message", "is_for_good"),
    [
        (ActorDiedError(), ParentGone, "ActorDiedError: The actor died", True),
        (ActorUnavailableError("restarting", b"a" * 16), ParentGone, "restarting", False),
        (RayTaskError("f", "trace", ParentGone("no topic")).as_instanceof_cause(), ParentGone, "no topic", False),
        (
            RayTaskError("f", "trace", ProtocolError("what?")).as_instanceof_cause(),
            Refused,
            "refuses: what?",
            None,
        ),
        (
            RayTaskError("f", "trace", KeyError("x")).as_instanceof_cause(),
            Refused,
            "refuses: trace",
            None,
        ),
    ],
    ids=["dead", "restarting", "not now", "refused", "broken"],
)
def test_why_it_does_not_answer(
    error: Exception, expected: type[Exception], message: str, is_for_good: bool | None
) -> None:
    """Whether that is for good; and what the actor itself says is raised as it is."""
    with pytest.raises(expected, match=message) as caught:
        find_parent(Actor(error), "child", "here")
    assert type(caught.value) is expected
    assert getattr(caught.value, "is_for_good", None) is is_for_good


def test_it_is_not_waited_for_for_ever() -> None:
    """That may be better the next time."""
    with raises(ParentGone) as caught:
        find_parent(Actor(None), "child", "here", within_s=0.01)
    assert not caught.value.is_for_good


class Told:
    """A parent of which one sees what it is told."""

    def __init__(self) -> None:
        self.said: list[ChildMessage] = []
        self.why_lost = ""
        self.is_closed = False
        self.is_waiting = False

    @property
    def is_lost(self) -> bool:
        return bool(self.why_lost)

    def fileno(self) -> int:
        return 7

    def read(self) -> list[Downstream]:
        return [KNOWN]

    def say(self, messages: Iterable[ChildMessage]) -> None:
        self.said += messages

    def close(self) -> None:
        self.is_closed = True


class Finds:
    """Returns parents one after the other, or raises; the first at once, the others when they may."""

    def __init__(self, *found: Told | WatchedParent | Exception) -> None:
        self._found = list(found)
        self.may = threading.Event()
        self.rung = threading.Event()
        self.why_lost: list[str] = []

    def __call__(self, why_lost: str) -> Any:
        self.why_lost.append(why_lost)
        if why_lost:
            assert self.may.wait(WITHIN_S)
        found = self._found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def kept(self) -> KeptParent:
        """Return a parent that has been found."""
        kept = KeptParent("bills", 0, self, GREETING, self.rung.set)
        assert not kept.look(0.0)
        assert self.rung.wait(WITHIN_S)
        self.rung.clear()
        assert not kept.look(0.0)
        assert kept.parent is not None
        return kept


def found_after(kept: KeptParent, finds: Finds, now_s: float) -> bool:
    """Let a search that is under way come to its end, and look."""
    finds.may.set()
    assert finds.rung.wait(WITHIN_S)
    finds.rung.clear()
    return kept.look(now_s)


def test_a_parent_that_is_lost_is_replaced_without_waiting() -> None:
    """What is said meanwhile is lost, as it may be; the next one is greeted first."""
    first, second = Told(), Told()
    finds = Finds(first, second)
    kept = finds.kept()
    kept.say([ASKED])
    assert (first.said, kept.read(), kept.look(0.0)) == ([GREETING, ASKED], [KNOWN], False)

    first.why_lost = "it has gone"
    assert not kept.look(1.0)
    assert first.is_closed
    kept.say([ASKED])
    assert (kept.read(), kept.parent, kept.look_at_s) == ([], None, inf)
    assert found_after(kept, finds, 1.5)
    assert (second.said, finds.why_lost) == ([GREETING], ["", "it has gone"])
    assert not kept.look(2.0)
    kept.close()
    assert second.is_closed


def test_one_that_is_away_is_looked_for_again_and_again() -> None:
    """After a moment each time, until it has been away for too long."""
    first = Told()
    finds = Finds(first, *(ParentGone("it starts") for _ in range(2)))
    kept = finds.kept()
    first.why_lost = "it has gone"
    kept.look(10.0)
    assert not found_after(kept, finds, 10.0)
    assert kept.look_at_s == pytest.approx(10.2)
    assert not kept.look(10.1)
    assert finds.why_lost == ["", "it has gone"]
    kept.look(10.3)
    with raises(PublisherLost):
        found_after(kept, finds, 10.0 + RESTARTS_WITHIN_S + 0.1)
    kept.close()


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (ParentGone("killed", is_for_good=True), PublisherLost, "the publisher is dead: killed"),
        (DeliveryError("another reader has taken over"), DeliveryError, "another reader has taken over"),
        (RuntimeError("what?"), PublisherLost, "cannot be reached: what?"),
    ],
    ids=["dead", "refused", "broken"],
)
def test_what_will_not_get_better_is_an_error_at_once(
    error: Exception, expected: type[Exception], message: str
) -> None:
    """With the words of who refused."""
    first = Told()
    finds = Finds(first, error)
    kept = finds.kept()
    first.why_lost = "it has gone"
    kept.look(0.0)
    with pytest.raises(expected, match=message):
        found_after(kept, finds, 0.1)
    kept.close()


def test_one_that_is_not_needed_is_not_looked_for() -> None:
    """As when the partition has ended."""
    first = Told()
    finds = Finds(first)
    kept = finds.kept()
    kept.is_needed = False
    first.why_lost = "it has gone"
    assert not kept.look(0.0)
    assert not kept.look(100.0)
    assert (finds.why_lost, kept.look_at_s) == ([""], inf)


def test_one_that_is_found_after_the_end_is_closed() -> None:
    """Nobody else would."""
    first, second = Told(), Told()
    closed = threading.Event()
    second.close = closed.set  # type: ignore[method-assign]
    finds = Finds(first, second)
    kept = finds.kept()
    first.why_lost = "it has gone"
    kept.look(0.0)
    kept.close()
    finds.may.set()
    assert closed.wait(WITHIN_S)


def test_the_first_has_to_be_there() -> None:
    """Otherwise it is lost; but one that is just being started again is waited for."""
    finds = Finds(ParentGone("nobody", is_for_good=True))
    kept = KeptParent("bills", None, finds, GREETING, finds.rung.set)
    kept.look(0.0)
    with raises(PublisherLost):
        found_after(kept, finds, 0.1)

    finds = Finds(ParentGone("it starts"), Told())
    kept = KeptParent("bills", None, finds, GREETING, finds.rung.set)
    kept.look(0.0)
    assert not found_after(kept, finds, 0.1)
    kept.look(kept.look_at_s)
    assert found_after(kept, finds, 1.0)
    assert finds.why_lost == ["", "it starts"]


def test_one_that_may_not_be_away_is_lost_at_once() -> None:
    """As a publisher without a log is: what came meanwhile would be missing."""
    finds = Finds(ParentGone("it starts"))
    kept = KeptParent("bills", None, finds, GREETING, finds.rung.set, within_s=0.0)
    kept.look(0.0)
    with raises(PublisherLost):
        found_after(kept, finds, 0.1)


def test_one_that_has_told_everything_is_let_go_of() -> None:
    """And no other is looked for."""
    first = Told()
    kept = Finds(first).kept()
    kept.end()
    assert first.is_closed
    assert not kept.look(1.0)
    assert (kept.parent, kept.look_at_s) == (None, inf)


class Clock:
    """Seconds that a test decides."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_parent_that_hangs_is_left_within_seconds() -> None:
    """Its socket is open and says nothing, as that of a stopped process; the next parent is looked for."""
    clock, second = Clock(), Told()
    with pair() as (ours, theirs):
        first = WatchedParent(ours, 1000, clock)
        finds = Finds(first, second)
        kept = finds.kept()
        for now_s in (1.0, HANGS_S):
            clock.now_s = now_s
            assert (kept.read(), kept.look(now_s), kept.parent) == ([], False, first)
        theirs.sendall(SIGN_OF_LIFE)
        assert kept.read() == []
        clock.now_s = 2 * HANGS_S
        assert (kept.read(), kept.look(clock.now_s), kept.parent) == ([], False, first)
        clock.now_s = 2 * HANGS_S + 0.1
        assert (kept.read(), kept.look(clock.now_s), kept.parent) == ([], False, None)
        assert found_after(kept, finds, clock.now_s)
        assert finds.why_lost == ["", "it has shown no sign of life for 5 s"]
        kept.close()


def test_a_reader_that_pauses_does_not_leave_its_parent() -> None:
    """What has come meanwhile shows that the parent lives."""
    clock = Clock()
    with pair() as (ours, theirs):
        parent = WatchedParent(ours, 1000, clock)
        theirs.sendall(SIGN_OF_LIFE + b"".join(encode(KNOWN)))
        clock.now_s = 10 * HANGS_S
        assert parent.read() == [KNOWN]
        assert not parent.is_lost
