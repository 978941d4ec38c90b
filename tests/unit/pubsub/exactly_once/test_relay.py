"""Between pubends and subends: tells many once, asks once for many, and keeps little."""

from collections.abc import Sequence

import pytest

from tests.simulation.delivery.filters import Multiple
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.relay import MOST_ACKS, MOST_RANGES, Relay
from tidewheel.pubsub.messages.delivery_messages import (
    MOST_ANSWERED,
    Ack,
    ConsolidatedAck,
    KnowledgeMessage,
    Nack,
    Stranger,
    Upstream,
)
from tidewheel.pubsub.messages.frames import encode
from tidewheel.pubsub.messages.tick_set import FOREVER
from tidewheel.pubsub.messages.wire import Rejected


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


def test_an_answer_is_short_whatever_room_there_is() -> None:
    """What the relay has goes in several answers, so that it does other things between them."""
    relay = relay_of("a", cache_bytes=1 << 20)
    relay.receive(forwarded(*range(MOST_ANSWERED + 5), first=0), 0.0)
    [(_, told)], asked = nack(relay, "a", 0, room_bytes=1 << 40)
    assert isinstance(told, KnowledgeMessage)
    assert (len(told.data), told.more, asked) == (MOST_ANSWERED, True, [])
    told_all, _ = nack(relay, "a", MOST_ANSWERED, room_bytes=1 << 40)
    assert len(told_to(told_all)["a"]) == 5


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
    relay.ack("a", Ack(0, {"a": ((0, 3),)}))
    relay.ack("b", Ack(0, {"b": ((0, 6),)}))
    relay.ack("a", Ack(0, {"a": ((0, 6),)}))
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


class Failing(Multiple):
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
    told, _ = relay.flush()
    told += nack(relay, "a", 0, 5)[0]
    assert [message.lost_end for _, message in told if isinstance(message, KnowledgeMessage)] == [4, 4]


def test_a_pubend_that_is_started_again_may_have_what_its_last_life_had_forgotten() -> None:
    """What the last life said of the ticks before the end of the lost messages is no silence: all of it is asked for.

    What waits to be told of them is not told. So it is for a connection that is new, and for one to a relay above.
    """
    for is_reconnected in (True, False):
        relay = relay_of("a")
        relay.receive(KnowledgeMessage(0, ((0, 1),)), 0.0)
        relay.receive(KnowledgeMessage(0, ((1, 5), (7, 9)), lost_end=8), 0.0)
        if is_reconnected:
            relay.reconnected(0.0)
        else:
            relay.receive(KnowledgeMessage(0, ((9, 10),), lost_end=3), 0.0)
        known_end = 9 if is_reconnected else 10
        told, _ = relay.flush()
        lost_end = 0 if is_reconnected else 3
        assert told == [Outgoing("a", KnowledgeMessage(0, ((8, known_end),), lost_end=lost_end))]
        assert nack(relay, "a", 0, 9)[1] == [Nack(0, ((0, 8),), 1000)]


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


# ---------------------------------------------------------------------- acknowledgements


def acknowledge(relay: Relay, end: int, *readers: str) -> None:
    """Acknowledge all ticks before one for readers that may be consolidated."""
    for reader in readers:
        assert relay.ack(reader, Ack(0, {reader: ((0, end),)}, may_consolidate=True)) == []


def upstream(relay: Relay) -> list[ConsolidatedAck]:
    """Return what a flush says upstream, which is one consolidated acknowledgement at most."""
    told, asked = relay.flush()
    assert told == []
    found = [message for message in asked if isinstance(message, ConsolidatedAck)]
    assert found == asked
    assert len(found) <= 1
    return found


def size_of(messages: Sequence[Upstream]) -> int:
    return sum(len(bytes(part)) for message in messages for part in encode(message))


def test_a_flush_says_as_much_for_ten_thousand_as_for_one() -> None:
    """A reader is named once, when it comes, and not with each flush; the publisher keeps one entry for all."""
    sizes = []
    for count in (1, 100, 10_000):
        readers = [f"s{number}" for number in range(count)]
        relay = relay_of(*readers)
        acknowledge(relay, 1_000_000, *readers)
        [named] = upstream(relay)
        assert named.readers == dict.fromkeys(readers, True)
        acknowledge(relay, 2_000_000, *readers)
        [flushed] = flush = upstream(relay)
        assert (flushed.end, flushed.readers) == (2_000_000, {})
        sizes.append(size_of(flush))
    assert max(sizes) < min(sizes) + 10
    assert max(sizes) < 60


def test_the_slowest_reader_counts() -> None:
    """Of all that are there: one that comes may be behind the others, and one that goes holds nobody up."""
    relay = relay_of("a", "b", "late")
    acknowledge(relay, 10, "a", "b")
    acknowledge(relay, 30, "a")
    [first] = upstream(relay)
    assert first.end == 10
    acknowledge(relay, 5, "late")
    [second] = upstream(relay)
    assert (second.end, second.readers) == (5, {"late": True})
    relay.leave("late")
    relay.leave("b")
    [third] = upstream(relay)
    assert (third.end, third.readers) == (30, {"late": False, "b": False})
    assert upstream(relay) == []


def test_a_relay_speaks_for_the_readers_of_relays_below() -> None:
    """It passes on their names, and asks for them again if it has missed some."""
    lower, upper = relay_of("a", "b"), relay_of("relay/lower", "c")
    acknowledge(lower, 10, "a", "b")
    [lost] = upstream(lower)
    assert lost.readers
    acknowledge(lower, 20, "a", "b")
    acknowledge(upper, 15, "c")
    [unknown] = upstream(lower)
    assert upper.ack("relay/lower", unknown) == [Outgoing("relay/lower", Stranger(0, ""))]
    [alone] = upstream(upper)
    assert (alone.end, alone.readers) == (15, {"c": True})
    assert lower.receive(Stranger(0, ""), 0.0) == []
    [named] = upstream(lower)
    assert upper.ack("relay/lower", named) == []
    [together] = upstream(upper)
    assert (together.end, together.readers) == (15, {"a": True, "b": True})
    upper.leave("relay/lower")
    [left] = upstream(upper)
    assert (left.end, left.readers) == (15, {"a": False, "b": False})


def test_another_upstream_is_told_all_names() -> None:
    """It knows nothing of those that an earlier one was told."""
    relay = relay_of("a", "b")
    acknowledge(relay, 10, "a", "b")
    upstream(relay)
    relay.reconnected(0.0)
    [named] = upstream(relay)
    assert (named.readers, named.is_all) == ({"a": True, "b": True}, True)


def test_durable_subscriptions_have_their_turn() -> None:
    """Each has a position of its own; a flush has a bounded number of them, the ones that wait longest first."""
    readers = [f"s{number}" for number in range(MOST_ACKS + 20)]
    relay = relay_of(*readers)
    for end in (10, 20):
        for reader in readers:
            relay.ack(reader, Ack(0, {reader: ((0, end),)}, {reader: (((0, end),), ((0, 7),))}))
    first, second = (relay.flush()[1] for _ in range(2))
    for [told], expected in ((first, readers[:MOST_ACKS]), (second, readers[MOST_ACKS:])):
        assert isinstance(told, Ack)
        assert told.acks == dict.fromkeys(expected, ((0, 20),))
        assert told.everywhere == dict.fromkeys(expected, (((0, 20),), ((0, 7),)))
    assert relay.flush()[1] == []


def test_readers_are_said_to_live_though_they_say_nothing() -> None:
    """A consolidated one with the others, and by its name one that has not acknowledged anything yet, or is durable."""
    relay = relay_of("shared", "durable", "silent")
    acknowledge(relay, 10, "shared")
    relay.ack("durable", Ack(0, {"durable": ((0, 5),)}))
    relay.flush()
    relay.show_life()
    _, [alone, together] = relay.flush()
    assert isinstance(alone, Ack)
    assert alone.acks == {"durable": ((0, 5),), "silent": ()}
    assert isinstance(together, ConsolidatedAck)
    assert (together.end, together.readers) == (10, {})


def test_who_has_not_joined_acknowledges_nothing() -> None:
    """A late message of a child that has left would hold the others up for ever."""
    relay = relay_of("a", "b")
    acknowledge(relay, 10, "a", "b")
    relay.leave("b")
    acknowledge(relay, 10, "b")
    [told] = upstream(relay)
    assert (told.end, told.readers) == (10, {"a": True})
