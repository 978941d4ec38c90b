"""The start of publishers: as many as the logs have partitions, each on the node of its feeder. No Ray."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import ray
from ray.exceptions import GetTimeoutError, RayTaskError

from tests.kit.messages import raises
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.log.errors import LogFull
from tidewheel.pubsub.publishers import publisher_calls
from tidewheel.pubsub.publishers.publisher_calls import PublisherCalls, start_publishers


class Started(NamedTuple):
    """A publisher that was started."""

    number: int
    partitions: int
    node: str


class Actors:
    """The class of actors: it starts nothing."""

    def options(self, *, scheduling_strategy: str, **_: Any) -> "Actors":
        return self

    def remote(self, topic: str, number: int, made: Any, logs: Any) -> Any:
        return made


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[Started]:
    """Those that were killed."""
    found: list[Started] = []
    monkeypatch.setattr(publisher_calls, "actor_class", lambda _: Actors())
    monkeypatch.setattr(publisher_calls, "_only_on", lambda node: node)
    monkeypatch.setattr(publisher_calls, "kill", found.extend)
    return found


def start(nodes: Sequence[str], logged: Sequence[Sequence[int | None]] | None) -> list[Any]:
    answers = None if logged is None else iter(logged)
    return start_publishers(
        "topic",
        Started,  # type: ignore[arg-type]
        nodes,
        len(nodes),
        starts_again=True,
        logged=None if answers is None else lambda publishers: next(answers),
    )


@pytest.mark.parametrize("logged", [None, [[0, 0]], [[2, 2]], [[None, None]]])
def test_there_is_one_for_each_worker(killed: list[Started], logged: Any) -> None:
    """If there are no logs, or they say so; one that cannot be read says why when it is opened."""
    assert start("ab", logged) == [Started(0, 2, "a"), Started(1, 2, "b")]
    assert killed == []


def test_there_are_as_many_as_partitions(killed: list[Started]) -> None:
    """With fewer workers, and with more of them."""
    assert start("ab", [[3, 3], [3, 3, 3]]) == [Started(0, 3, "a"), Started(1, 3, "b"), Started(2, 3, "a")]
    assert killed == [Started(0, 2, "a"), Started(1, 2, "b")]
    assert start("abc", [[1, 0, 0], [1]]) == [Started(0, 1, "a")]


def test_a_log_on_another_node_is_refused(killed: list[Started]) -> None:
    """Otherwise a new one would begin there, and subscribers would miss what is in the old one."""
    with raises(DeliveryError):
        start("ab", [[3, 3], [3, None, 0]])
    assert len(killed) == 5


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RayTaskError("place", "", LogFull("the log in /logs is full")), "cannot go on: the log in /logs is full"),
        (GetTimeoutError("it took more than 3 s"), "is dead, or does not answer: it took more than 3 s"),
    ],
)
def test_one_whose_disk_is_full_is_not_called_dead(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    """As long as it answers, the error says what keeps it from going on."""

    def get(*_: Any, timeout: float) -> None:
        raise error

    calls = PublisherCalls("topic", [None])
    monkeypatch.setattr(publisher_calls, "_GO_BACK_S", 0.0)
    monkeypatch.setattr(calls, "ask", lambda *_, **__: [None])
    monkeypatch.setattr(calls, "call", lambda *_: None)
    monkeypatch.setattr(ray, "get", get)
    with pytest.raises(PublisherLost, match=said):
        calls.answers("place", 1.0)
