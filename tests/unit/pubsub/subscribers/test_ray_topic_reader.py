"""Reading from publisher actors, with Ray played by the test."""

from collections import deque
from typing import Any

import pytest
import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError

from tidewheel.pubsub import PublisherLost
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot, Numbered, PartitionEnded
from tidewheel.pubsub.subscribers import ray_topic_reader
from tidewheel.pubsub.subscribers.ray_topic_reader import RayTopicReader
from tidewheel.pubsub.subscribers.topic_reader import Fetched

SNAPSHOT = Numbered(0, InitialFrontierSnapshot([0], []))
END = Numbered(1, PartitionEnded())


class Call:
    """An actor method; what is called, with its arguments, goes into a list."""

    def __init__(self, calls: list[Any]) -> None:
        self._calls = calls

    def remote(self, *arguments: Any) -> object:
        self._calls.append(arguments)
        return object()


class Actor:
    """A handle of a publisher actor."""

    def __init__(self) -> None:
        self.polls: list[Any] = []
        self.poll = Call(self.polls)


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> deque[Any]:
    """What the polls return, or raise, one after the other."""
    waiting: deque[Any] = deque()

    def get(call: object) -> Any:
        reply = waiting.popleft()
        if isinstance(reply, Exception):
            raise reply
        return reply

    monkeypatch.setattr(ray, "wait", lambda calls, num_returns, timeout: (calls[:num_returns], calls[num_returns:]))
    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray_topic_reader, "_RETRY_DELAY_S", 0)
    return waiting


def test_one_poll_is_out_at_a_time_and_acknowledges_the_reply_before(replies: deque[Any]) -> None:
    """The next poll goes out with the reply in hand, and none goes out after the end."""
    actor = Actor()
    reader = RayTopicReader("ranks", [actor], "s")
    replies.extend([[SNAPSHOT], [], [END]])
    assert reader.read([0]) == [Fetched(0, [SNAPSHOT])]
    assert reader.read([0]) == [Fetched(0, [])]
    assert reader.read([0]) == [Fetched(0, [END])]
    assert [acknowledged for _, acknowledged, _, _ in actor.polls] == [-1, 0, 0]


def test_no_partition_is_starved(replies: deque[Any]) -> None:
    """Though both always have news, they are read in turn."""
    reader = RayTopicReader("ranks", [Actor(), Actor()], "s")
    replies.extend([[SNAPSHOT]] * 4)
    assert [fetched.partition for _ in range(4) for fetched in reader.read([0, 1])] == [0, 1, 0, 1]


def test_a_publisher_out_of_reach_for_a_moment_is_asked_again(replies: deque[Any]) -> None:
    """Asking again is safe: what was not acknowledged comes again."""
    actor = Actor()
    reader = RayTopicReader("ranks", [actor], "s")
    replies.extend([ActorUnavailableError("no answer", None), [SNAPSHOT]])
    assert reader.read([0]) == [Fetched(0, [])]
    assert reader.read([0]) == [Fetched(0, [SNAPSHOT])]
    assert [acknowledged for _, acknowledged, _, _ in actor.polls] == [-1, -1, 0]


def test_one_out_of_reach_for_long_is_lost(replies: deque[Any]) -> None:
    """Patience ends."""
    reader = RayTopicReader("ranks", [Actor()], "s")
    replies.extend([ActorUnavailableError("no answer", None)] * 10)
    for _ in range(9):
        reader.read([0])
    with pytest.raises(PublisherLost, match="partition 0"):
        reader.read([0])


def test_a_dead_one_is_lost_at_once(replies: deque[Any]) -> None:
    """The error names topic and partition."""
    reader = RayTopicReader("ranks", [Actor()], "s")
    replies.append(ActorDiedError())
    with pytest.raises(PublisherLost, match="topic 'ranks', partition 0") as caught:
        reader.read([0])
    assert (caught.value.topic, caught.value.partition) == ("ranks", 0)
