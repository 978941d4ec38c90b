"""A parent on another node, which is asked by calls."""

import select
from concurrent.futures import Future
from typing import TypeAlias

import pytest

from tests.kit.exactly_once.linked import knowledge
from tidewheel.pubsub.messages.delivery_messages import Ack, Downstream, Nack
from tidewheel.pubsub.messages.frames import CODEC, ChildMessage, Join
from tidewheel.transport.call_link import SILENT_S, WAIT_S, CallParent

Answer: TypeAlias = "Future[list[Downstream]]"

JOIN = Join("child", None)


class Calls:
    """The calls that are made, which are answered when the test says so."""

    def __init__(self) -> None:
        self.made: list[tuple[list[ChildMessage], float]] = []
        self.under_way: list[Answer] = []
        self.now_s = 0.0
        self.error: Exception | None = None

    def parent(self, *, has_joined: bool = True) -> CallParent:
        parent = CallParent(CODEC, self._talk, lambda: self.now_s)
        if has_joined:
            parent.say([JOIN])
            self.answer()
            assert parent.read() == []
            assert self.made == [([JOIN], 0.0), ([], WAIT_S)]
            self.made.clear()
        return parent

    def _talk(self, said: list[ChildMessage], wait_s: float) -> Answer:
        if self.error is not None:
            raise self.error
        self.made.append((said, wait_s))
        self.under_way.append(Future())
        return self.under_way[-1]

    def answer(self, *told: Downstream) -> None:
        """Answer the first call that is under way."""
        self.under_way.pop(0).set_result(list(told))


def is_ringing(parent: CallParent) -> bool:
    poll = select.poll()
    poll.register(parent.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def test_it_says_who_it_is_before_anything_else() -> None:
    """In a call that waits for nothing; another one comes only when that is answered, with all that was said since."""
    calls = Calls()
    parent = calls.parent(has_joined=False)
    assert parent.read() == []
    assert calls.made == []
    parent.say([JOIN])
    parent.say([Nack(0, ((0, 5),), 100), Ack(0, {"child": ((0, 5),)})])
    parent.say([Ack(0, {"child": ((0, 6),)})])
    assert calls.made == [([JOIN], 0.0)]
    calls.answer()
    assert is_ringing(parent)
    assert parent.read() == []
    assert not is_ringing(parent)
    assert calls.made[1:] == [([Nack(0, ((0, 5),), 100), Ack(0, {"child": ((0, 6),)})], WAIT_S)]
    parent.close()


def test_there_is_always_a_call_and_never_more_than_two() -> None:
    """What is said goes at once with the second; what is said then waits, and is kept short."""
    calls = Calls()
    parent = calls.parent()
    parent.say([Nack(0, ((0, 5),), 100)])
    assert calls.made == [([Nack(0, ((0, 5),), 100)], WAIT_S)]
    for end in range(6, 10):
        parent.say([Ack(0, {"child": ((0, end),)})])
    assert len(calls.under_way) == 2
    calls.answer()
    assert parent.read() == []
    assert calls.made[1:] == [([Ack(0, {"child": ((0, 9),)})], WAIT_S)]
    calls.answer(knowledge(1, 10), knowledge(2, 10))
    calls.answer(knowledge(3, 10))
    assert parent.read() == [knowledge(tick, 10) for tick in (1, 2, 3)]
    assert calls.made[2:] == [([], WAIT_S)]
    assert not parent.is_waiting
    parent.close()


@pytest.mark.parametrize("when", ["in the call", "in the answer"])
def test_a_call_that_fails_is_the_end(when: str) -> None:
    """Who polls finds out; what came before has been returned, and nothing more is said."""
    calls = Calls()
    parent = calls.parent()
    if when == "in the call":
        calls.error = ConnectionError("it died")
        parent.say([Ack(0, {})])
    else:
        parent.say([Ack(0, {})])
        calls.answer(knowledge(1, 10))
        calls.under_way.pop(0).set_exception(ConnectionError("it died"))
    made = list(calls.made)
    assert is_ringing(parent)
    assert parent.read() == ([] if when == "in the call" else [knowledge(1, 10)])
    assert (parent.is_lost, parent.why_lost) == (True, "ConnectionError: it died")
    parent.say([Ack(0, {})])
    assert parent.read() == []
    assert calls.made == made
    parent.close()


def test_a_parent_that_does_not_answer_is_lost() -> None:
    """It answers every call after `WAIT_S` at the latest."""
    calls = Calls()
    parent = calls.parent()
    calls.now_s = WAIT_S + SILENT_S
    parent.read()
    assert not parent.is_lost
    calls.now_s += 0.1
    parent.read()
    assert parent.why_lost == f"it has not answered for {WAIT_S + SILENT_S:g} s"
    parent.close()


def test_an_answer_after_the_end_is_no_error() -> None:
    """It comes on a thread of others, which would not know what to do with one."""
    calls = Calls()
    parent = calls.parent()
    parent.close()
    parent.close()
    calls.answer(knowledge(1, 10))
    assert parent.is_lost
