"""The next hop: who is told what, by filter, and when."""

from typing import Any

import pytest

from tests.simulation.delivery.filters import Multiple
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.fanout import PATIENT, Fanout, Outgoing
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage
from tidewheel.pubsub.messages.wire import Rejected


class Failing(Multiple):
    """A filter that fails at one message.

    Args:
        error: what it raises there.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def of(self, message: bytes) -> Any:
        if message == b"4":
            raise self._error
        return message

    def __repr__(self) -> str:
        return "Failing"


def data(*ticks: int) -> tuple[tuple[int, bytes], ...]:
    return tuple((tick, str(tick).encode()) for tick in ticks)


def test_what_does_not_pass_is_silence_and_goes_with_the_next_that_passes() -> None:
    """Together with all silence before; each child of one filter is told the same."""
    fanout = Fanout(7)
    fanout.join("all")
    fanout.join("even", Multiple(2))
    fanout.join("even too", Multiple(2))
    assert fanout.forward(((0, 3),), data(3)) == [Outgoing("all", KnowledgeMessage(7, ((0, 3),), data(3)))]
    assert fanout.forward((), data(4)) == [
        Outgoing("all", KnowledgeMessage(7, (), data(4))),
        Outgoing("even", KnowledgeMessage(7, ((0, 4),), data(4))),
        Outgoing("even too", KnowledgeMessage(7, ((0, 4),), data(4))),
    ]


def test_silence_alone_waits() -> None:
    """Until the owner finds that it has waited for long enough."""
    fanout = Fanout(0)
    fanout.join("a")
    assert fanout.forward(((0, 3),), ()) == []
    assert fanout.forward(((3, 5), (6, 7)), ()) == []
    assert fanout.flush() == [Outgoing("a", KnowledgeMessage(0, ((0, 5), (6, 7))))]
    assert fanout.flush() == []
    assert fanout.forward(((7, 8),), data(8)) == [Outgoing("a", KnowledgeMessage(0, ((7, 8),), data(8)))]


def test_silence_is_rarely_told_to_children_that_do_not_await_it() -> None:
    """With every so many flushes, or with a message; others are told with each flush. A child may change its mind."""
    fanout = Fanout(0)
    fanout.join("relay")
    fanout.join("subscriber", awaits_silence=False)
    told = []
    for tick in range(2 * PATIENT):
        assert fanout.forward(((tick, tick + 1),), ()) == []
        told.append(fanout.flush())
    assert [len(outgoing) for outgoing in told] == 2 * [*[1] * (PATIENT - 1), 2]
    assert told[-1][1] == Outgoing("subscriber", KnowledgeMessage(0, ((PATIENT, 2 * PATIENT),)))
    fanout.forward(((40, 41),), ())
    assert fanout.forward((), data(41))[1] == Outgoing("subscriber", KnowledgeMessage(0, ((40, 41),), data(41)))
    fanout.join("subscriber")
    fanout.forward(((42, 43),), ())
    assert len(fanout.flush()) == 2


def test_an_answer_goes_to_one_and_says_so() -> None:
    """Filtered as well; to who has gone, and of nothing, there is none."""
    fanout = Fanout(0)
    fanout.join("a", Multiple(2))
    fanout.join("b")
    answer = KnowledgeMessage(0, ((0, 4),), data(4), more=True, is_answer=True)
    assert fanout.answer("a", ((0, 3),), data(3, 4), more=True) == [Outgoing("a", answer)]
    assert fanout.answer("a", (), (), more=False) == []
    fanout.leave("a")
    fanout.leave("a")
    assert fanout.answer("a", ((0, 3),), data(3, 4), more=True) == []
    assert fanout.children.keys() == {"b"}


def test_who_joins_again_may_have_another_filter() -> None:
    """From then on; what was not told of what the last one left out he has to ask for."""
    fanout = Fanout(0)
    fanout.join("a", Multiple(2))
    assert fanout.forward((), data(3)) == []
    fanout.join("a", Multiple(2))
    assert fanout.flush() == [Outgoing("a", KnowledgeMessage(0, ((3, 4),)))]
    fanout.forward((), data(5))
    fanout.join("a", Multiple(3))
    assert fanout.forward((), data(6)) == [Outgoing("a", KnowledgeMessage(0, (), data(6)))]
    assert len(fanout.children) == 1


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (DeliveryError("no such field"), "no such field"),
        (ZeroDivisionError("by nought"), "the filter Failing of a subscription fails at tick 4 with ZeroDivisionError"),
    ],
    ids=["its own", "another"],
)
@pytest.mark.parametrize("asks", [False, True], ids=["told", "asks"])
def test_a_filter_that_fails_is_the_end_for_its_child_only(error: Exception, why: str, *, asks: bool) -> None:
    """Whatever it raises: the child is told why, and others get what is theirs."""
    fanout = Fanout(0)
    fanout.join("bad", Failing(error))
    fanout.join("good")
    assert len(fanout.forward((), data(3))) == 2
    told = fanout.answer("bad", (), data(4), more=False) if asks else fanout.forward((), data(4))
    rejected = dict(told)["bad"]
    assert isinstance(rejected, Rejected)
    assert rejected.reason.startswith(why)
    assert fanout.children.keys() == {"good"}
    assert fanout.forward((), data(5)) == [Outgoing("good", KnowledgeMessage(0, (), data(5)))]


def test_every_child_is_told_what_is_lost() -> None:
    """With whatever it is told next."""
    fanout = Fanout(0)
    fanout.join("a")
    fanout.lost_end = 9
    told = [*fanout.forward((), data(3)), *fanout.answer("a", (), data(4), more=False)]
    told += [*fanout.forward(((4, 5),), ()), *fanout.flush()]
    assert [outgoing.message.lost_end for outgoing in told if isinstance(outgoing.message, KnowledgeMessage)] == [9] * 3
