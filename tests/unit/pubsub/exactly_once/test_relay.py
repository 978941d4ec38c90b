"""Between pubends and subends: tells many once, asks once for many, and keeps little."""

from collections.abc import Sequence

import pytest

from tests.simulation_delivery.filters import Multiple
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.messages import Ack, KnowledgeMessage, Nack, Rejected, Upstream
from tidewheel.pubsub.exactly_once.relay import MOST_RANGES, Asked, Relay
from tidewheel.pubsub.exactly_once.tick_set import FOREVER, TickSet
from tidewheel.transport.round_trips import FIRST_S, LEAST_S, MOST_S, RoundTrips


def relay_of(*children: str, cache_bytes: int = 1000) -> Relay:
    relay = Relay(1, len, cache_bytes=cache_bytes)
    for child in children:
        relay.join(child)
    return relay


def told_to(outgoing: Sequence[Outgoing]) -> dict[str, list[bytes]]:
    """Return the messages that each child is told, also where that is none."""
    told: dict[str, list[bytes]] = {}
    for child, message in outgoing:
        assert isinstance(message, KnowledgeMessage)
        told.setdefault(child, []).extend(payload for _, payload in message.data)
    return told


def forwarded(*ticks: int, first: int) -> KnowledgeMessage:
    """Return what a pubend says by itself: messages of ten bytes, and silence between them from ``first`` on."""
    final = [(before, tick) for before, tick in zip((first, *(t + 1 for t in ticks)), ticks, strict=False)]
    data = tuple((tick, str(tick).encode().zfill(10)) for tick in ticks)
    return KnowledgeMessage(0, tuple(pair for pair in final if pair[0] < pair[1]), data)


def answer(*ticks: int, first: int, more: bool = False) -> KnowledgeMessage:
    told = forwarded(*ticks, first=first)
    return KnowledgeMessage(0, told.final, told.data, more=more, is_answer=True)


def nack(
    relay: Relay, child: str, first: int, end: int = FOREVER, *, now_s: float = 0.0, room_bytes: int = 1000
) -> tuple[list[Outgoing], list[Upstream]]:
    return relay.nack(child, Nack(0, ((first, end),), room_bytes), now_s)


def test_all_are_told_at_once_what_is_new_and_nobody_what_is_not() -> None:
    """Whatever comes twice or late."""
    relay = relay_of("a", "b")
    assert told_to(relay.receive(forwarded(5, first=0), 0.0)) == {"a": [b"0000000005"], "b": [b"0000000005"]}
    assert relay.receive(forwarded(5, first=0), 0.0) == []
    late = relay.receive(forwarded(9, first=8), 0.0), relay.receive(forwarded(5, 7, first=0), 0.0)
    assert [told_to(told)["a"] for told in late] == [[b"0000000009"], [b"0000000007"]]


def test_what_it_has_it_answers_and_the_rest_it_asks_for_once() -> None:
    """For all children together; and each gets the answer that asked."""
    relay = relay_of("a", "b", "c")
    relay.receive(forwarded(50, first=40), 0.0)
    told, asked = relay.nack("a", Nack(0, ((10, 40), (50, 51)), 1000), 0.0)
    assert told_to(told) == {"a": [b"0000000050"]}
    assert asked == [Nack(0, ((10, 40),), 1000)]
    assert nack(relay, "b", 0, 20, now_s=0.1) == ([], [Nack(0, ((0, 10),), 1000)])
    assert nack(relay, "b", 0, 20, now_s=0.1) == ([], [])
    assert told_to(relay.receive(answer(15, 30, first=10), 0.15)) == {
        "a": [b"0000000015", b"0000000030"],
        "b": [b"0000000015"],
    }
    assert nack(relay, "c", 10, 31, now_s=0.15)[1] == []


def test_a_relay_that_begins_with_an_answer_tells_it_to_who_asked() -> None:
    """What others have long had does not go to them, however much it is; what comes unasked does."""
    relay = relay_of("behind", "ahead")
    nack(relay, "behind", 0)
    told = relay.receive(answer(5, 6, first=0, more=True), 0.1)
    assert told_to(told) == {"behind": [b"0000000005", b"0000000006"]}
    nack(relay, "behind", 7, now_s=0.1)
    assert told_to(relay.receive(forwarded(90, first=80), 0.15)).keys() == {"behind", "ahead"}
    assert told_to(relay.receive(answer(8, 9, first=7, more=True), 0.2)).keys() == {"behind"}


def test_who_wants_to_know_without_an_end_costs_nothing_once_something_came() -> None:
    """From then on he is told with the others."""
    relay = relay_of("a", "b")
    relay.receive(forwarded(5, first=0), 0.0)
    for child in ("a", "b"):
        nack(relay, child, 6)
    [line] = relay._lines
    assert line._wanted
    told = relay.receive(forwarded(9, first=6), 0.0)
    assert told_to(told) == {"a": [b"0000000009"], "b": [b"0000000009"]}
    assert len(told) == 2
    assert not line._wanted


def test_an_answer_that_leaves_something_out_says_so_to_who_asked() -> None:
    """Who then asks for the rest, and the relay at once for him."""
    relay = relay_of("a")
    nack(relay, "a", 0)
    [(_, told)] = relay.receive(answer(5, first=0, more=True), 0.1)
    assert isinstance(told, KnowledgeMessage)
    assert told.more
    assert nack(relay, "a", 6, now_s=0.1) == ([], [Nack(0, ((6, FOREVER),), 1000)])


def test_an_answer_has_as_much_as_there_is_room_for() -> None:
    """From what the relay has: one message at least, with word that there is more; it looks at no more than that."""
    relay = relay_of("a")
    relay.receive(forwarded(*range(50), first=0), 0.0)
    for room_bytes, count in ((-1, 1), (1, 1), (30, 3), (31, 4)):
        [(_, told)], asked = nack(relay, "a", 0, room_bytes=room_bytes)
        assert isinstance(told, KnowledgeMessage)
        assert (len(told.data), told.more, asked) == (count, True, [])
    told_all, asked = relay.nack("a", Nack(0, ((3, 5), (48, FOREVER)), 20), 0.0)
    assert told_to(told_all) == {"a": [b"0000000003", b"0000000004"]}
    assert asked == []


def test_what_was_cut_short_is_said_with_the_answer_from_above() -> None:
    """What is behind a gap waits until that is filled, or it would take the room; then the child asks for it."""
    relay = relay_of("a")
    relay.receive(forwarded(*range(20, 40), first=20), 0.0)
    for nacked in (((0, FOREVER),), ((0, 20), (20, FOREVER))):
        told, asked = relay.nack("a", Nack(0, nacked, 50), 0.0)
        assert told == []
        assert asked in ([Nack(0, ((0, 20), (40, FOREVER)), 50)], [])
    [(_, filled)] = relay.receive(answer(10, 19, first=0), 0.1)
    assert isinstance(filled, KnowledgeMessage)
    assert filled.more
    assert told_to(nack(relay, "a", 20, room_bytes=50)[0]) == {"a": [b"%010d" % tick for tick in range(20, 25)]}


def test_an_answer_in_two_parts_arrives_in_whole() -> None:
    """The first of which has what is later, and word of more: what is missing before it is still wanted."""
    relay = relay_of("a")
    relay.receive(forwarded(*range(20, 30), first=15), 0.0)
    asked = relay.nack("a", Nack(0, ((0, 5), (10, 25), (30, FOREVER)), 1000), 0.0)[1]
    assert asked == [Nack(0, ((0, 5), (10, 15), (30, FOREVER)), 1000)]
    assert told_to(relay.receive(answer(12, first=10), 0.1)) == {"a": [b"0000000012"]}
    assert told_to(relay.receive(answer(3, first=0), 0.1)) == {"a": [b"0000000003"]}
    relay.nack("a", Nack(0, ((5, 6), (7, 9)), 1000), 9.0)
    assert told_to(relay.receive(answer(7, first=7, more=True), 9.1)) == {"a": [b"0000000007"]}
    assert told_to(relay.receive(answer(5, first=5), 9.1)) == {"a": [b"0000000005"]}


def test_what_it_has_no_room_for_it_forgets_and_asks_for_again() -> None:
    """The oldest first; it never takes for final what it has forgotten."""
    relay = relay_of("a", cache_bytes=30)
    for tick in range(10):
        relay.receive(forwarded(tick, first=tick), 0.0)
    assert relay.cached_bytes == 30
    assert told_to(nack(relay, "a", 7)[0]) == {"a": [b"0000000007", b"0000000008", b"0000000009"]}
    assert nack(relay, "a", 4, 10) == ([], [Nack(0, ((4, 7),), 1000)])
    assert told_to(relay.receive(answer(4, 5, 6, first=4), 0.1)) == {"a": [b"0000000004", b"0000000005", b"0000000006"]}


def test_a_message_larger_than_all_room_goes_through() -> None:
    """It is told, and as an answer as well, though not kept."""
    relay = relay_of("a", cache_bytes=5)
    assert told_to(relay.receive(forwarded(3, first=0), 0.0)) == {"a": [b"0000000003"]}
    assert relay.cached_bytes == 0
    assert nack(relay, "a", 3, 4, room_bytes=1) == ([], [Nack(0, ((3, 4),), 1)])
    assert told_to(relay.receive(answer(3, first=3), 0.1)) == {"a": [b"0000000003"]}


def test_acknowledgements_wait_and_go_together() -> None:
    """Of each subscription all that was said, once; they make nothing final here."""
    relay = relay_of("a", "b")
    relay.receive(forwarded(5, first=0), 0.0)
    relay.ack(Ack(0, {"a": ((0, 3),), "b": ((0, 6),)}))
    relay.ack(Ack(0, {"a": ((0, 6),)}))
    assert relay.flush() == ([], [Ack(0, {"a": ((0, 6),), "b": ((0, 6),)})])
    assert relay.flush() == ([], [])
    relay.join("c")
    assert told_to(nack(relay, "c", 0, 6)[0]) == {"c": [b"0000000005"]}


def test_another_upstream_is_asked_at_once_for_what_children_want() -> None:
    """It knows nothing of what was asked before."""
    relay = relay_of("a", "b")
    nack(relay, "a", 0, 10)
    nack(relay, "b", 5, 20)
    assert relay.reconnected(0.05) == [Nack(0, ((0, 20),), 1000)]
    assert nack(relay, "b", 5, 20, now_s=0.06) == ([], [])
    relay.leave("a")
    assert relay.reconnected(0.07) == [Nack(0, ((5, 20),), 1000)]
    relay.leave("b")
    assert relay.reconnected(0.08) == []


def test_who_has_not_joined_is_told_nothing() -> None:
    """The relay may have started again; who is there joins again, and asks again."""
    relay = relay_of()
    assert nack(relay, "a", 0) == ([], [])
    relay.join("a", Multiple(2))
    assert nack(relay, "a", 0)[1] == [Nack(0, ((0, FOREVER),), 1000)]


class Failing:
    """A filter that takes nothing."""

    def of(self, message: bytes) -> bytes:
        raise DeliveryError("no such field")


@pytest.mark.parametrize("asks", [False, True], ids=["told", "asked"])
def test_nothing_is_left_of_a_child_whose_filter_fails(*, asks: bool) -> None:
    """Neither of what it wanted; others are told."""
    relay = relay_of("good")
    relay.join("bad", Failing())
    if asks:
        relay.receive(forwarded(2, first=2), 0.0)
        relay.join("bad", Failing())
        told, asked = nack(relay, "bad", 2, 3)
        assert asked == []
    else:
        nack(relay, "bad", 0, 2)
        told = relay.receive(forwarded(2, first=2), 0.0)
        assert [child for child, _ in told] == ["good", "bad"]
    assert [message.reason for _, message in told if isinstance(message, Rejected)] == ["no such field"]
    [line] = relay._lines
    relay.receive(forwarded(3, first=3), 0.0)
    assert not line._wanted


def test_who_is_rejected_upstream_rejects() -> None:
    """All its children."""
    relay = relay_of("a", "b")
    rejected = Rejected(0, "why")
    assert relay.receive(rejected, 0.0) == [Outgoing("a", rejected), Outgoing("b", rejected)]


def test_what_is_lost_is_told_to_all_below() -> None:
    """With the next that they are told, and ever after."""
    relay = relay_of("a")
    relay.receive(KnowledgeMessage(0, ((0, 5),), lost_end=4), 0.0)
    relay.receive(KnowledgeMessage(0, ((5, 8),)), 0.0)
    told, _ = relay.flush()
    told += nack(relay, "a", 0, 5)[0]
    assert [message.lost_end for _, message in told if isinstance(message, KnowledgeMessage)] == [4, 4]


def test_gaps_about_which_nobody_asks_do_not_pile_up() -> None:
    """However much is lost on the way to a relay: what it knows between them it forgets in the end."""
    relay = relay_of()
    for number in range(3 * MOST_RANGES):
        relay.receive(KnowledgeMessage(0, ((10 * number, 10 * number + 5),)), 0.0)
    [line] = relay._lines
    assert len(line.stream.known) <= MOST_RANGES
    assert len(line._told) <= MOST_RANGES
    relay.join("a")
    assert nack(relay, "a", 10, 20) == ([], [Nack(0, ((10, 20),), 1000)])
    assert told_to(relay.receive(answer(13, first=10), 0.1)) == {"a": [b"0000000013"]}


def ticks(*ranges: tuple[int, int]) -> TickSet:
    return TickSet(ranges)


def test_what_is_asked_is_not_asked_again_until_it_is_late() -> None:
    """Only what nobody has asked for yet, and then, all of it once more, a wait that is twice as long."""
    asked = Asked()
    assert asked.ask(ticks((0, 10)), 0.0) == ticks((0, 10))
    assert asked.ask(ticks((5, 20)), 0.9 * FIRST_S) == ticks((10, 20))
    assert asked.ask(ticks((0, 10)), 1.1 * FIRST_S) == ticks((0, 10))
    assert asked.ask(ticks((0, 10)), 3.0 * FIRST_S) == ticks()
    assert asked.ask(ticks((0, 10)), 3.2 * FIRST_S) == ticks((0, 10))


def test_what_is_answered_may_be_asked_again_at_once() -> None:
    """And the rest may not."""
    asked = Asked()
    asked.ask(ticks((0, 10)), 0.0)
    asked.answered(ticks((0, 5), (7, 8)), 0.1, more=False)
    assert asked.ask(ticks((0, 10)), 0.1) == ticks((0, 5), (7, 8))


def test_an_answer_that_leaves_something_out_is_one_to_all_behind_it() -> None:
    """What there was no room for nobody will send."""
    asked = Asked()
    asked.ask(ticks((0, 10), (20, 30)), 0.0)
    asked.answered(ticks((2, 5)), 0.1, more=True)
    assert asked.ask(ticks((0, 40)), 0.1) == ticks((2, 40))


def test_a_question_without_an_end_is_answered_by_what_comes() -> None:
    """From there on: else it would count as asked in vain whenever somebody asks for what is next."""
    asked = Asked()
    for number in range(20):
        tick, now_s = 10 * number, 10.0 * number
        assert asked.ask(ticks((tick, FOREVER)), now_s) == ticks((tick, FOREVER))
        assert asked.ask(ticks((tick, FOREVER)), now_s + 0.9 * FIRST_S) == ticks()
        asked.answered(ticks((tick, tick + 10)), now_s + 0.9 * FIRST_S, more=False)
        assert len(asked.questions) == 0


def test_questions_that_nobody_repeats_are_forgotten() -> None:
    """However many answers get lost, and however often those who asked have gone."""
    asked = Asked()
    for number in range(10_000):
        asked.ask(ticks((number, number + 1)), float(number))
    assert len(asked.questions) < 10 * MOST_S


def test_another_peer_is_asked_everything_again() -> None:
    """It knows nothing of what was asked before."""
    asked = Asked()
    asked.ask(ticks((0, 10)), 0.0)
    asked.questions.clear()
    assert asked.ask(ticks((0, 10)), 0.0) == ticks((0, 10))


def test_the_wait_follows_what_answers_take() -> None:
    """Longer than they mostly take, and between a least and a most."""
    trips = RoundTrips()
    for _ in range(100):
        trips.learn(0.1)
    assert 0.1 <= trips.wait_s(0) < 0.15
    for number in range(100):
        trips.learn(0.1 + 0.1 * (number % 2))
    assert trips.wait_s(0) > 0.2
    for _ in range(100):
        trips.learn(0.0)
    assert trips.wait_s(0) == LEAST_S
    assert trips.wait_s(100) == MOST_S
    trips.learn(1000.0)
    assert trips.wait_s(0) == MOST_S
