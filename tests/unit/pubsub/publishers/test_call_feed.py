"""Feeding a publisher by Ray's calls, with Ray itself left out."""

from collections.abc import Sequence
from typing import Any

import pytest
import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayTaskError

from tests.kit.pubsub.actor_thread import data, epoch
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.messages.wire import FeedEvent
from tidewheel.pubsub.publishers.call_feed import MOST_OUTSTANDING, ROOM_BYTES, CallFeed
from tidewheel.pubsub.publishers.feed import FeedLost, FeedRefused


class Publisher:
    """A handle of an actor: notes calls, which are answered when a test says so."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, list[FeedEvent]]] = []
        self.answers: dict[int, Any] = {}
        self.pings: list[Any] = []
        self.waits: list[float] = []
        self.feed = self

    def remote(self, incarnation: int, sequence: int, events: list[FeedEvent]) -> int:
        self.calls.append((incarnation, sequence, events))
        return sequence

    @property
    def ping(self) -> Any:
        return _Ping()

    def answer(self, *sequences: int, how: Any = None) -> None:
        self.answers.update(dict.fromkeys(sequences, how))


class _Ping:
    def remote(self) -> str:
        return "ping"


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Publisher:
    handle = Publisher()

    def wait(calls: Sequence[int], num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        handle.waits.append(timeout)
        if timeout and not handle.answers:
            handle.pings.append(None)
        done = [call for call in calls if call in handle.answers]
        return done, [call for call in calls if call not in done]

    def get(what: Any, timeout: float | None = None) -> None:
        for one in what if isinstance(what, list) else [what]:
            answer = handle.answers.get(one)
            if isinstance(answer, Exception):
                raise answer

    monkeypatch.setattr(ray, "wait", wait)
    monkeypatch.setattr(ray, "get", get)
    return handle


def test_calls_are_numbered(publisher: Publisher) -> None:
    """From 0 on, all by the same worker."""
    feed = CallFeed(publisher)
    for time in range(3):
        feed.send(epoch(time))
    assert [(sequence, events) for _, sequence, events in publisher.calls] == [(time, epoch(time)) for time in range(3)]
    assert len({incarnation for incarnation, _, _ in publisher.calls}) == 1
    other = CallFeed(publisher)
    other.send(epoch(0))
    assert publisher.calls[-1][0] != publisher.calls[0][0]


def test_there_is_room_for_so_many_calls(publisher: Publisher) -> None:
    """As soon as one is answered there is room again."""
    feed = CallFeed(publisher)
    for _ in range(MOST_OUTSTANDING):
        assert feed.has_room()
        feed.send([data(0)])
    assert not feed.has_room()
    assert feed.wait_for_room(lambda: None) == pytest.approx(0.005)
    publisher.answer(17)
    assert feed.has_room()


def test_there_is_room_for_so_many_bytes(publisher: Publisher) -> None:
    """However few calls they are in."""
    feed = CallFeed(publisher)
    sent = 0
    while feed.has_room():
        feed.send([data(0, 4 << 20)])
        sent += 4 << 20
    assert ROOM_BYTES <= sent <= ROOM_BYTES + (4 << 20)
    publisher.answer(0)
    assert feed.has_room()
    feed.send([data(0, 4 << 20)])
    assert not feed.has_room()
    publisher.answer(*range(20))
    assert feed.has_room()
    assert feed._outstanding_bytes == 0


def test_finishing_waits_for_all_answers(publisher: Publisher) -> None:
    """While some come nobody is asked whether the publisher lives."""
    feed = CallFeed(publisher)
    for time in range(5):
        feed.send(epoch(time))
    publisher.answer(*range(5))
    feed.finish()
    assert not feed._outstanding
    assert not publisher.pings


def test_finishing_goes_on_as_long_as_the_publisher_answers(publisher: Publisher) -> None:
    """A subscriber may hold it back for longer than one would wait for an answer."""
    feed = CallFeed(publisher)
    feed.send(epoch(0))
    rounds = iter(range(5))

    def ping() -> None:
        if next(rounds, None) is None:
            publisher.answer(0)

    class Ping:
        def remote(self) -> str:
            ping()
            return "ping"

    type(publisher).ping = property(lambda self: Ping())  # type: ignore[assignment]
    try:
        feed.finish()
    finally:
        type(publisher).ping = property(lambda self: _Ping())  # type: ignore[assignment]
    assert len(publisher.waits) == 7


def test_finishing_ends_when_the_publisher_does_not_answer(publisher: Publisher) -> None:
    """Nobody waits for ever for one that hangs."""
    feed = CallFeed(publisher)
    feed.send(epoch(0))
    publisher.answers["ping"] = GetTimeoutError("no answer")  # type: ignore[index]
    with pytest.raises(FeedLost, match="has not answered for 60 s"):
        feed.finish()


@pytest.mark.parametrize("when", ["send", "has_room", "finish"])
@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (ActorDiedError(), FeedLost, "died"),
        (RayTaskError("feed", "traceback", ProtocolError("time 3 is over")), FeedRefused, "^time 3 is over$"),
    ],
    ids=["dead", "refused"],
)
def test_what_went_wrong_is_told(
    publisher: Publisher, when: str, answer: Exception, error: type[Exception], text: str
) -> None:
    """At a later call, whichever that is."""
    feed = CallFeed(publisher)
    for time in range(MOST_OUTSTANDING if when == "has_room" else 10):
        feed.send(epoch(time))
    publisher.answer(3, how=answer)
    with pytest.raises(error, match=text):
        _do(feed, when)


def _do(feed: CallFeed, what: str) -> None:
    if what == "send":
        for time in range(100):
            feed.send(epoch(time))
    elif what == "has_room":
        feed.has_room()
    else:
        feed.finish()
