"""A way to a parent that is looked for again when the parent is lost."""

import threading
from collections.abc import Callable, Iterable

import pytest

from tests.waiting import WITHIN_S
from tidewheel.pubsub import DeliveryError, PublisherLost
from tidewheel.pubsub.exactly_once.frames import ChildMessage, Join
from tidewheel.pubsub.exactly_once.messages import Downstream, KnowledgeMessage, Nack
from tidewheel.pubsub.subscribers.kept_parent import RESTARTS_WITHIN_S, KeptParent
from tidewheel.pubsub.subscribers.parents import Parent, ParentGone

GREETING = Join("reader", None)
KNOWN = KnowledgeMessage(0, ((0, 5),))
ASKED = Nack(0, ((5, 6),), 1)


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

    def __init__(self, *found: Told | Exception) -> None:
        self._found = list(found)
        self.may = threading.Event()
        self.rung = threading.Event()
        self.again: list[bool] = []

    def __call__(self, is_again: bool) -> Parent:
        self.again.append(is_again)
        if is_again:
            assert self.may.wait(WITHIN_S)
        found = self._found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def kept(self) -> KeptParent:
        kept = KeptParent("topic 'bills', partition 0", self, GREETING, self.rung.set)
        kept.connect()
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
    assert (first.said, kept.read(), kept.fileno, kept.look(0.0)) == ([GREETING, ASKED], [KNOWN], 7, False)

    first.why_lost = "it has gone"
    assert not kept.look(1.0)
    assert first.is_closed
    kept.say([ASKED])
    assert (kept.read(), kept.fileno, kept.look_at_s) == ([], None, None)
    assert found_after(kept, finds, 1.5)
    assert (second.said, kept.fileno, finds.again) == ([GREETING], 7, [False, True])
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
    assert len(finds.again) == 2
    kept.look(10.3)
    with pytest.raises(PublisherLost, match="topic 'bills', partition 0: the publisher is dead: it starts"):
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
    assert (finds.again, kept.look_at_s) == ([False], None)


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
    """Otherwise the subscription fails; but one that is just being started again is waited for."""
    nobody: Callable[[bool], Parent] = Finds(ParentGone("nobody", is_for_good=True))
    with pytest.raises(PublisherLost, match="the publisher is dead: nobody"):
        KeptParent("topic", nobody, GREETING, lambda: None).connect()

    finds = Finds(ParentGone("it starts"), Told())
    finds.may.set()
    assert finds.kept().fileno == 7
    assert finds.again == [False, True]
