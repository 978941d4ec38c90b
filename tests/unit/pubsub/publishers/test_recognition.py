"""The comparison over all partitions: it waits for all publishers, and names a record where they have it."""

from collections.abc import Callable
from typing import Any

import pytest
import ray

from tests.kit.messages import raises
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.wire import FIRST, Generation
from tidewheel.pubsub.publishers import recognition as recognition_module
from tidewheel.pubsub.publishers.epochs_again import Difference
from tidewheel.pubsub.publishers.publisher_calls import PublisherCalls
from tidewheel.pubsub.publishers.recognition import Recognition

NEXT = Generation(1, (9,))


class Call:
    """A call of an actor, which is answered by a function when it is asked."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer


class Method:
    def __init__(self, called: list[Any], name: str, answers: list[Any]) -> None:
        self._called, self._name, self._answers = called, name, answers

    def remote(self, *arguments: Any) -> Call:
        self._called.append((self._name, arguments))
        return Call(lambda: self._answers.pop(0) if self._answers else None)


class Publisher:
    """An actor with its answers to each call, in order."""

    def __init__(self, **answers: list[Any]) -> None:
        self.called: list[Any] = []
        self._answers = answers

    def __getattr__(self, name: str) -> Method:
        return Method(self.called, name, self._answers.setdefault(name, []))


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer every call at once, unless the answer is an error of Ray."""

    def get(call: Call) -> Any:
        answer = call.answer()
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(ray, "wait", lambda calls, **_: (calls, []))
    monkeypatch.setattr(ray, "get", get)


def recognition(*publishers: Publisher) -> Recognition:
    return Recognition(IntegerDomain(), PublisherCalls("topic", publishers))


def names(publisher: Publisher) -> list[str]:
    return [name for name, _ in publisher.called]


def test_records_that_went_to_another_partition_are_the_same() -> None:
    """Sums are added up, once every publisher has all, and the publishers may forget."""
    one = Publisher(came_again=[None, {1: 5}], logged=[{1: 7}])
    other = Publisher(came_again=[{1: 4}, {1: 4}], logged=[{1: 2}])
    compared = recognition(one, other)
    compared.begin(NEXT)
    compared.check()
    assert names(one) == names(other) == ["came_again", "came_again", "logged", "compared"]
    assert one.called[0][1][0] == 1
    assert one.called[-1] == ("compared", ([],))


def test_other_content_fails_the_topic_again_and_again() -> None:
    """A job that goes back asks once more, and must not go on."""
    one = Publisher(came_again=[{1: 5}], logged=[{}], compared=[{5: Difference(-1, "'new'")}])
    other = Publisher(came_again=[{}], logged=[{1: 6}], compared=[{6: Difference(1, "'old'")}])
    compared = recognition(one, other)
    compared.begin(NEXT)
    for _ in range(2):
        with raises(DeliveryError):
            compared.check()
    reason = compared.reason(1.0)
    assert reason is not None
    assert "epoch 1 is complete" in reason


def test_what_the_log_lacks_is_named_or_at_least_the_epoch() -> None:
    """A publisher may not have kept what came."""
    for found, text in (
        ({5: Difference(-1, "'new'")}, r"partition 0: .* 'new', which is not in the log"),
        ({}, "epoch 1"),
    ):
        one = Publisher(came_again=[{1: 5}], logged=[{}], compared=[found])
        compared = recognition(one)
        compared.begin(NEXT)
        with pytest.raises(DeliveryError, match=text):
            compared.check()


@pytest.mark.parametrize("answer", [{1: None}, ray.exceptions.RayError("the publisher has died")])
def test_what_is_not_known_is_no_error(answer: Any) -> None:
    """A log has removed a part, or cannot be read."""
    compared = recognition(Publisher(came_again=[{1: 5}], logged=[answer]))
    compared.begin(NEXT)
    compared.check()
    assert compared.reason(1.0) is None


def test_a_publisher_that_has_died_does_not_stop_the_watch_of_the_job() -> None:
    """It is asked again later, and the end of the topic waits only so long."""
    publisher = Publisher(came_again=[ray.exceptions.RayError("it has died")] * 1000)
    compared = recognition(publisher)
    compared.begin(NEXT)
    compared.check()
    assert len(publisher.called) < 10
    assert compared.reason(0.3) is None
    assert len(publisher.called) < 50


def test_the_end_of_a_job_waits_for_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of which all work is done fails if content differs; a publisher that is dead does not hold it up."""
    dead = ray.exceptions.RayError("it has died")
    publisher = Publisher(came_again=[dead] * 9 + [{1: 5}], logged=[{1: 6}])
    compared = recognition(publisher)

    def state() -> tuple[bool, int]:
        return compared.is_due, len(compared.pending)

    assert state() == (False, 0)
    monkeypatch.setattr(ray, "wait", lambda calls, **_: ([], calls))
    compared.begin(NEXT)
    assert state() == (True, 1)
    monkeypatch.setattr(ray, "wait", lambda calls, **_: (calls, []))
    compared.check()
    assert state() == (False, 0)
    with raises(DeliveryError):
        for _ in range(9):
            compared.check()
    assert state() == (True, 0)


def test_the_end_of_a_job_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher that hangs holds it up for ten minutes at most; after a return the time begins again."""
    now_s = [1000.0]
    monkeypatch.setattr(recognition_module, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(ray, "wait", lambda calls, **_: ([], calls))
    compared = recognition(Publisher())
    compared.begin(NEXT)
    due = []
    for passed_s in (0, 599, 1):
        now_s[0] += passed_s
        due.append(compared.is_due)
    assert due == [True, True, False]
    compared.begin(Generation(2, (9,)))
    assert compared.is_due


def test_nothing_is_asked_where_nothing_comes_again() -> None:
    """In a first life, and no log is read where inputs go on where they were."""
    publisher = Publisher(came_again=[{}])
    compared = recognition(publisher)
    compared.begin(FIRST)
    compared.check()
    assert not publisher.called
    compared.begin(NEXT)
    compared.check()
    assert names(publisher) == ["came_again", "compared"]
