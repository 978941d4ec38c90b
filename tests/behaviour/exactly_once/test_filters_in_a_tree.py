"""Filters go up a tree of relays: only what somebody below wants comes down, and nobody misses anything for that."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kit.exactly_once.relayed import topic_of
from tests.simulation.delivery.filters import Multiple
from tests.waiting import WITHIN_S, eventually
from tidewheel.pubsub.exactly_once.fanout import Fanout, Outgoing
from tidewheel.pubsub.exactly_once.relay import Relay
from tidewheel.pubsub.messages.delivery_messages import KnowledgeMessage, Nack, Ranges
from tidewheel.pubsub.messages.filters import Filter, union_of
from tidewheel.pubsub.messages.tick_set import FOREVER
from tidewheel.pubsub.messages.wire import Rejected


def relay_of(*divisors: int) -> Relay:
    """Return a relay with a child for each divisor, which has told its parent what they want."""
    relay = Relay(1, len)
    for divisor in divisors:
        relay.join(f"by {divisor}", Multiple(divisor))
    relay.show_life()
    relay.wanted.is_due = False
    return relay


def told(where: Filter | None, ticks: Sequence[int], *, is_answer: bool = False) -> KnowledgeMessage:
    """Return what a parent tells a child with a filter of ticks that all have messages, their own numbers."""
    fanout = Fanout(0)
    fanout.join("child", where)
    data = [(tick, b"%d" % tick) for tick in ticks]
    if is_answer:
        [outgoing] = fanout.answer("child", (), data, more=False)
    else:
        [outgoing] = [*fanout.forward((), data), *fanout.flush()][:1]
    assert isinstance(outgoing.message, KnowledgeMessage)
    return outgoing.message


def heard(outgoing: Sequence[Outgoing]) -> dict[str, tuple[Ranges, list[int]]]:
    """Return the silence and the messages that each child is told."""
    found = {}
    for child, message in outgoing:
        assert isinstance(message, KnowledgeMessage)
        found[child] = (message.final, [int(payload) for _, payload in message.data])
    return found


def test_silence_of_a_filter_does_not_answer_a_child_that_wants_more() -> None:
    """The relay asks again for what was filtered out, after it has told its parent what it wants."""
    relay = relay_of(2)
    relay.receive(told(relay.wanted.union, range(1, 9)), 0.0)
    assert heard(relay.nack("by 2", Nack(0, ((1, 9),), 100), 0.0)[0])["by 2"][1] == [2, 4, 6, 8]
    relay.join("all")
    assert relay.wanted.is_due
    assert relay.nack("all", Nack(0, ((1, 9),), 100), 0.1) == ([], [Nack(0, ((1, 9),), 100)])
    answered = relay.receive(told(relay.wanted.union, range(1, 9), is_answer=True), 0.2)
    assert heard(answered)["all"][1] == list(range(1, 9))


def test_a_child_with_a_known_filter_is_answered_from_what_there_is() -> None:
    """The union stays as it is, so nothing is forgotten, and the parent hears nothing."""
    relay = relay_of(2, 3)
    relay.receive(told(relay.wanted.union, range(1, 9)), 0.0)
    relay.join("another", Multiple(3))
    assert not relay.wanted.is_due
    answered, asked = relay.nack("another", Nack(0, ((1, 9),), 100), 0.1)
    assert heard(answered)["another"] == (((1, 3), (4, 6), (7, 9)), [3, 6])
    assert asked == []


def test_what_is_under_way_for_an_earlier_union_goes_to_those_it_holds_for() -> None:
    """Others are told nothing of it, and it is not kept; an answer is not even passed on."""
    relay = relay_of(2)
    earlier = relay.wanted.union
    relay.receive(told(earlier, [1, 2]), 0.0)
    relay.join("by 3", Multiple(3))
    relay.wanted.is_due = False
    assert heard(relay.receive(told(earlier, [3, 4]), 0.1)) == {"by 2": (((3, 4),), [4])}
    assert relay.wanted.is_due, "the parent may not know of the present union"
    assert relay.nack("by 3", Nack(0, ((3, 5),), 100), 0.1) == ([], [Nack(0, ((3, 5),), 100)])
    assert relay.receive(told(earlier, [3, 4], is_answer=True), 0.2) == []
    assert heard(relay.receive(told(relay.wanted.union, [3, 4], is_answer=True), 0.2))["by 3"][1] == [3]


def test_knowledge_of_an_unknown_union_counts_for_nothing() -> None:
    """A relay that has started again does not know what it asked for before."""
    relay = relay_of(2)
    assert relay.receive(told(union_of([Multiple(7)]), [6, 7]), 0.0) == []
    assert relay.nack("by 2", Nack(0, ((6, 8),), 100), 0.0)[1] == [Nack(0, ((6, 8),), 100)]


def test_a_union_that_shrinks_forgets_and_goes_on() -> None:
    """What children have not had they ask for again; messages that were sent for the larger union reach them."""
    relay = relay_of(2, 3)
    larger = relay.wanted.union
    relay.receive(told(larger, [1, 2, 3]), 0.0)
    relay.leave("by 3")
    assert relay.wanted.union == larger
    relay.show_life()
    assert relay.wanted.union == union_of([Multiple(2)])
    assert heard(relay.receive(told(larger, [4, 5, 6, 9, 10]), 0.0))["by 2"][1] == [4, 6, 10]
    assert relay.nack("by 2", Nack(0, ((2, FOREVER),), 100), 0.1)[1] == [Nack(0, ((2, FOREVER),), 100)]


def test_a_relay_below_asks_through_the_one_above() -> None:
    """The upper one wants what both of them want, and tells each what it wants."""
    upper, lower = relay_of(3), relay_of(2)
    upper.join("relay/lower", lower.wanted.union)
    assert upper.wanted.union == union_of([Multiple(2), Multiple(3)])
    outgoing = upper.receive(told(upper.wanted.union, range(1, 7)), 0.0)
    [below] = [message for child, message in outgoing if child == "relay/lower"]
    assert isinstance(below, KnowledgeMessage)
    assert [int(payload) for _, payload in below.data] == [2, 4, 6]
    assert heard(lower.receive(below, 0.0))["by 2"][1] == [2, 4, 6]


def test_a_filter_that_fails_is_the_end_for_its_child_only() -> None:
    """It fails at the pubend first, which lets the message through; the relay says why to the child."""
    relay = relay_of(2, 3)
    fanout = Fanout(0)
    fanout.join("relay", relay.wanted.union)
    relay.join("all")
    relay.leave("by 3")
    [(child, message)] = fanout.forward((), [(5, b"no number")])
    assert (child, isinstance(message, KnowledgeMessage)) == ("relay", True)
    assert isinstance(message, KnowledgeMessage)
    relay.show_life()
    outgoing = relay.receive(KnowledgeMessage(0, (), message.data), 0.0)
    kinds = {child: type(message) for child, message in outgoing}
    assert kinds == {"by 2": Rejected, "all": KnowledgeMessage}


@pytest.mark.parametrize("consolidates", [False, True], ids=["each", "together"])
def test_only_what_is_wanted_comes_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, consolidates: bool) -> None:
    """Over sockets: an upper and a lower relay receive what their readers want, until one comes that wants all."""
    monkeypatch.setattr("tidewheel.pubsub.relays.relay_actor.SIGN_OF_LIFE_S", 0.2)
    with topic_of(tmp_path, pubends=1) as topic:
        upper = topic.relay()
        lower = topic.relay(upper)
        for relay in (upper, lower):
            assert relay.run(relay.actor.serves(WITHIN_S))
        topic.reader("tens", lower, divisor=10, consolidates=consolidates)
        assert eventually(lambda: upper.actor._relay.wanted.union is not None)
        topic.publish(5)
        topic.read_all()
        before = [topic.statistics(relay).messages for relay in (upper, lower)]
        topic.publish(100)
        topic.read_all()
        # Moves of the frontier pass any filter; the last ones of both parts may come after what the reader wants.
        for relay, count in zip((upper, lower), before, strict=True):
            assert eventually(lambda: topic.statistics(relay).messages >= count + 110)  # noqa: B023 - called at once
            assert topic.statistics(relay).messages <= count + 115
        topic.reader("all", lower, start=0, consolidates=consolidates)
        topic.publish(20)
        topic.read_all()
