"""Many small messages become few that say the same."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.pubsub.messages.delivery_messages import JOINED_BYTES, Downstream, KnowledgeMessage, Stranger, joined
from tidewheel.pubsub.messages.encoded_message import encode
from tidewheel.pubsub.messages.tick_set import TickSet
from tidewheel.pubsub.messages.wire import DataMessage, Rejected
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor
from tidewheel.pubsub.relays.relay_actor import RelayActor

PUBENDS = range(2)
OTHERS: list[Downstream] = [Rejected(0, "why"), Stranger(1, "reader"), KnowledgeMessage(0, (), (), lost_end=3)]


def told(first: int, end: int, size: int = 10, pubend: int = 0, lost_end: int = 0) -> KnowledgeMessage:
    """What is told of some ticks: silence, and then a message."""
    message = encode(DataMessage(end, b"x" * size, "pickle", 1))
    return KnowledgeMessage(pubend, ((first, end - 1),), ((end - 1, message),), lost_end=lost_end)


@st.composite
def conversations(draw: st.DrawFn) -> list[Downstream]:
    """What two pubends tell, mostly in order, with other things between it."""
    said: list[Downstream] = []
    ends = dict.fromkeys(PUBENDS, 0)
    for _ in range(draw(st.integers(0, 12))):
        pubend = draw(st.sampled_from(PUBENDS))
        first = max(0, ends[pubend] + draw(st.integers(-5, 3)))
        ends[pubend] = first + draw(st.integers(2, 5))
        message = told(first, ends[pubend], draw(st.sampled_from([0, 10, JOINED_BYTES])), pubend)
        kind = draw(st.integers(0, 9))
        if kind == 0:
            message = KnowledgeMessage(pubend, message.final, message.data, more=True, is_answer=True)
        said.append(OTHERS[kind - 1] if 0 < kind < 4 else message)
    return said


def is_plain(message: Downstream) -> bool:
    return isinstance(message, KnowledgeMessage) and not (message.is_answer or message.more)


@given(conversations())
def test_together_they_say_the_same(said: list[Downstream]) -> None:
    """Of each pubend, with the same messages in the same order; what is no plain knowledge stays as it is."""
    found = list(joined(said))
    assert [one for one in found if not is_plain(one)] == [one for one in said if not is_plain(one)]
    for pubend in PUBENDS:
        plain = [
            [one for one in some if isinstance(one, KnowledgeMessage) and is_plain(one) and one.pubend == pubend]
            for some in (found, said)
        ]
        data = [[entry for one in some for entry in one.data] for some in plain]
        final = [[ticks for one in some for ticks in one.final] for some in plain]
        assert data[0] == data[1]
        assert final[0] == final[1]
    for one in found:
        if isinstance(one, KnowledgeMessage):
            assert list(TickSet(one.final).ranges()) == [ticks for ticks in one.final if ticks[0] < ticks[1]]
            assert [tick for tick, _ in one.data] == sorted({tick for tick, _ in one.data})


def test_what_is_small_and_in_order_becomes_one() -> None:
    """Up to the first that makes it large, which nothing follows."""
    small = [told(tick, tick + 5) for tick in range(0, 50, 5)]
    large = told(50, 55, JOINED_BYTES)
    rest = [told(tick, tick + 5) for tick in range(55, 70, 5)]
    assert [len(one.data) for one in joined([*small, large, *rest]) if isinstance(one, KnowledgeMessage)] == [11, 3]
    assert list(joined([large, told(55, 60, JOINED_BYTES)])) == [large, told(55, 60, JOINED_BYTES)]


def test_what_does_not_follow_stays_apart() -> None:
    """Of another pubend, of earlier ticks, or with word of another loss; silence alone goes with what is before it."""
    first = told(0, 5)
    for other in (told(5, 10, pubend=1), told(3, 10), told(5, 10, lost_end=2)):
        assert list(joined([first, other])) == [first, other]
    silence = KnowledgeMessage(0, ((5, 10),))
    [one] = joined([first, silence])
    assert isinstance(one, KnowledgeMessage)
    assert (one.final, one.data) == (((0, 4), (5, 10)), first.data)


@pytest.mark.parametrize("actor", [PublisherActor, RelayActor])
def test_signatures_of_actors_can_be_pickled(actor: type) -> None:
    """Ray pickles an actor's class with its annotations, and those of a decoder cannot be pickled."""
    for method in vars(actor).values():
        pickle.dumps(getattr(method, "__annotations__", {}))
