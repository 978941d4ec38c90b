"""The sink of knowledge: in order, once, up to what is known; it asks for what is missing, and keeps room."""

from collections.abc import Iterable
from math import inf
from random import Random

import pytest

from tests.kit.exactly_once.subends import begun_at, horizon_of, repeat_acks, waiting_bytes_of
from tests.kit.messages import raises
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.round_trips import FIRST_S, MOST_S
from tidewheel.pubsub.exactly_once.subend import MOST_RANGES, SILENCE_S, Order, Subend
from tidewheel.pubsub.messages.delivery_messages import Ack, Begun, KnowledgeMessage, Nack, Upstream
from tidewheel.pubsub.messages.tick_set import FOREVER

IDLE_S = 1.0
ROOM_BYTES = 100


def subend_of(pubends: int = 1, order: Order = "publisher", start: Begun = begun_at()) -> Subend:  # noqa: B008
    starts = dict.fromkeys(range(pubends), start)
    return Subend("name", starts, len, order=order, room_bytes=ROOM_BYTES, idle_s=IDLE_S)


def told(first: int, *ticks: int, pubend: int = 0, size: int = 10, more: bool = False) -> KnowledgeMessage:
    """Return messages, and the silence from a tick on between them."""
    final = []
    for tick in ticks:
        if first < tick:
            final.append((first, tick))
        first = tick + 1
    data = tuple((tick, str(tick).encode().zfill(size)) for tick in ticks)
    return KnowledgeMessage(pubend, tuple(final), data, more=more, is_answer=more)


def ticks_of(subend: Subend) -> list[int]:
    """Take what is delivered, and acknowledge it."""
    delivered = subend.take()
    for one in delivered:
        subend.acknowledge(one.pubend, one.tick)
    return [one.tick for one in delivered]


def nacks(messages: Iterable[Upstream]) -> list[tuple[tuple[int, int], ...]]:
    assert all(isinstance(message, Nack) for message in messages)
    return [message.ranges for message in messages if isinstance(message, Nack)]


def test_each_message_is_delivered_once_in_order_whatever_comes_when() -> None:
    """Up to the doubt horizon, which is told."""
    subend = subend_of()
    pieces = [told(tick - 2, tick) for tick in range(2, 300, 3)] * 2
    Random(5).shuffle(pieces)
    delivered = []
    for piece in pieces:
        subend.receive(piece, 0.0)
        delivered += ticks_of(subend)
        while subend.ask(0.0):
            pass
    assert delivered == sorted(set(delivered))
    assert horizon_of(subend) in range(2, 301)
    for piece in sorted(pieces, key=lambda piece: piece.final):
        subend.receive(piece, 0.0)
        delivered += ticks_of(subend)
    assert delivered == list(range(2, 300, 3))
    assert (horizon_of(subend), waiting_bytes_of(subend)) == (300, 0)


def test_total_order_waits_for_all_pubends() -> None:
    """For the ticks of messages, and with silence of those that have none."""
    subend = subend_of(2, "total")
    subend.receive(told(0, 4, 8, pubend=0), 0.0)
    assert ticks_of(subend) == []
    subend.receive(told(0, 3, 5, pubend=1), 0.0)
    assert ticks_of(subend) == [3, 4, 5]
    subend.receive(KnowledgeMessage(1, ((6, 20),)), 0.0)
    assert ticks_of(subend) == [8]


def test_an_idle_pubend_holds_up_total_order_and_costs_no_more_than_the_room() -> None:
    """Of the other one's messages as many wait as there is room for, and the rest comes when it is asked for."""
    subend = subend_of(2, "total")
    for tick in range(50):
        subend.receive(told(tick, tick), 0.0)
        subend.ask(0.0)
        assert waiting_bytes_of(subend) <= ROOM_BYTES
    assert subend.ask_at_s() == SILENCE_S
    subend.receive(KnowledgeMessage(1, ((0, 1000),)), 0.5)
    assert ticks_of(subend) == list(range(10))
    assert subend.ask_at_s() == 0.0
    assert nacks(subend.ask(0.5)) == [((10, 50), (50, FOREVER))]


def test_total_order_acknowledges_silence_at_once() -> None:
    """Up to the first message that waits for other pubends: a filtered message far ahead must not hold its log."""
    subend = subend_of(2, "total")
    subend.receive(told(0, 50, pubend=0), 0.0)
    subend.receive(KnowledgeMessage(0, ((51, 100),)), 0.0)
    assert ticks_of(subend) == []
    assert subend.acks() == [Ack(0, {"name": ((0, 50),)}, {"name": (((0, 50),), ())})]
    subend.receive(KnowledgeMessage(1, ((0, 51),)), 0.0)
    assert ticks_of(subend) == [50]
    assert [ack.acks for ack in subend.acks() if isinstance(ack, Ack)] == [{"name": ((0, 100),)}, {"name": ((0, 51),)}]


def test_silence_that_a_message_waits_for_is_asked_for() -> None:
    """After a moment, and again; a pubend that tells it in time is not asked, nor one in publisher order."""
    subend = subend_of(2, "total")
    subend.receive(told(0, 50, pubend=0), 0.0)
    assert subend.ask(SILENCE_S - 0.01) == []
    subend.receive(KnowledgeMessage(1, ((0, 60),)), SILENCE_S - 0.01)
    assert ticks_of(subend) == [50]
    assert subend.ask(SILENCE_S) == []
    subend.receive(told(51, 90, pubend=0), 1.0)
    subend.receive(told(91, 95, pubend=0), 1.1)
    subend.receive(KnowledgeMessage(1, ((60, 70),)), 1.2)
    assert subend.ask_at_s() == 1.0 + SILENCE_S
    assert subend.ask(1.0 + SILENCE_S) == [Nack(1, ((70, 96),), ROOM_BYTES)]
    assert subend.ask(1.0 + SILENCE_S) == []
    assert subend.ask(20.0)[-1] == Nack(1, ((70, 96),), ROOM_BYTES)
    subend.receive(KnowledgeMessage(1, ((70, 96),)), 20.1)
    assert ticks_of(subend) == [90, 95]
    other = subend_of(2, "publisher")
    other.receive(told(0, 50, pubend=0), 0.0)
    assert other.ask_at_s() > SILENCE_S


def test_it_goes_on_from_where_it_is() -> None:
    """Behind what is acknowledged, also in pieces; what was told before it came it asks for at once."""
    subend = subend_of(start=begun_at(((0, 5), (6, 8)), 20))
    assert nacks(subend.ask(0.0)) == [((5, 6), (8, FOREVER))]
    subend.receive(told(5, 5, 6, 8), 0.0)
    assert ticks_of(subend) == [5, 8]
    assert subend.acks() == [Ack(0, {"name": ((0, 9),)})]
    live = subend_of(start=begun_at(((0, 20),), 20))
    assert live.ask(0.0) == []


def test_what_it_had_before_it_came_back_does_not_come_again() -> None:
    """Also where that was forgotten for want of room, with what was before it."""
    subend = subend_of(start=begun_at(((0, 5), (30, 31)), 40))
    subend.receive(told(5, *range(5, 20)), 0.0)
    assert waiting_bytes_of(subend) <= ROOM_BYTES
    delivered = ticks_of(subend)
    subend.receive(told(15, *range(15, 25)), 0.0)
    delivered += ticks_of(subend)
    subend.receive(told(25, *range(25, 35)), 0.0)
    assert delivered + ticks_of(subend) == [*range(5, 30), *range(31, 35)]


# ---------------------------------------------------------------------- acknowledging


def test_what_is_acknowledged_is_told_once_and_again_when_it_may_be_lost() -> None:
    """All of it; silence at once, and a message when its reader says so."""
    subend = subend_of()
    assert subend.acks() == []
    subend.receive(KnowledgeMessage(0, ((0, 4),)), 0.0)
    subend.take()
    assert subend.acks() == [Ack(0, {"name": ((0, 4),)})]
    subend.receive(told(4, 4, 6), 0.0)
    subend.take()
    assert subend.acks() == []
    subend.acknowledge(0, 4)
    assert subend.acks() == [Ack(0, {"name": ((0, 5),)})]
    subend.acknowledge(0, 4)
    assert subend.acks() == []
    repeat_acks(subend)
    assert subend.acks() == [Ack(0, {"name": ((0, 5),)})]


def test_a_reader_that_acknowledges_late_leaves_no_pieces() -> None:
    """However many messages he has yet to acknowledge, with silence between them."""
    subend = subend_of()
    for tick in range(0, 20_000, 2):
        subend.receive(told(tick - 1 if tick else 0, tick), 0.0)
        subend.take()
    assert subend.acks() == []
    for tick in range(0, 20_000, 2):
        subend.acknowledge(0, tick)
        if tick % 100 == 0:
            assert subend.acks() == [Ack(0, {"name": ((0, tick + 1),)})]


def test_acknowledging_in_another_order_is_told_in_part() -> None:
    """What is behind many gaps is told when they are filled; what was never delivered cannot be acknowledged."""
    subend = subend_of()
    subend.acknowledge(0, 3)
    count = 3 * MOST_RANGES
    for tick in range(count):
        subend.receive(told(tick, tick), 0.0)
        subend.take()
    for tick in range(1, count, 2):
        subend.acknowledge(0, tick)
    [ack] = subend.acks()
    assert isinstance(ack, Ack)
    assert len(ack.acks["name"]) == MOST_RANGES
    for tick in range(0, count, 2):
        subend.acknowledge(0, tick)
    assert subend.acks() == [Ack(0, {"name": ((0, count),)})]


# ---------------------------------------------------------------------- asking


def test_a_gap_is_asked_for_after_a_time_and_again_after_longer_ones() -> None:
    """It may be filled by what is late; and the next one is asked for as soon as answers have been."""
    subend = subend_of()
    subend.receive(told(5, 5), 0.0)
    assert subend.ask(0.0) == []
    assert subend.ask_at_s() == FIRST_S
    assert nacks(subend.ask(FIRST_S)) == [((0, 5),)]
    assert subend.ask(1.9 * FIRST_S) == []
    assert nacks(subend.ask(2.1 * FIRST_S)) == [((0, 5),)]
    assert subend.ask_at_s() == pytest.approx(4.1 * FIRST_S)
    subend.receive(told(0, 4), 3 * FIRST_S)
    assert ticks_of(subend) == [4, 5]
    assert subend.ask_at_s() == 3 * FIRST_S + IDLE_S


def test_the_wait_follows_the_answers() -> None:
    """Where they come within a millisecond or so a gap is soon asked for."""
    subend = subend_of()
    now_s = 0.0
    for tick in range(0, 400, 4):
        subend.receive(told(tick + 2, tick + 3), now_s)
        subend.ask(now_s)
        now_s = subend.ask_at_s()
        assert subend.ask(now_s)
        now_s += 0.001
        subend.receive(told(tick, tick + 1), now_s)
        assert ticks_of(subend) == [tick + 1, tick + 3]
    subend.receive(told(500, 500), now_s)
    subend.ask(now_s)
    assert subend.ask_at_s() - now_s < FIRST_S / 5


def test_silence_of_all_is_asked_about() -> None:
    """What came last may be lost; what is not new is no sign of life of the end."""
    subend = subend_of()
    subend.receive(told(0, 5), 0.0)
    assert ticks_of(subend) == [5]
    for now_s in (0.3, 0.6, 0.9):
        subend.receive(told(0, 5), now_s)
        assert subend.ask(now_s) == []
    assert nacks(subend.ask(IDLE_S)) == [((6, FOREVER),)]
    waits = []
    for _ in range(20):
        now_s = subend.ask_at_s()
        assert subend.ask(now_s)
        waits.append(subend.ask_at_s() - now_s)
    assert waits == pytest.approx(sorted(waits))
    assert waits[-1] == pytest.approx(MOST_S)


def test_later_ticks_are_no_answer() -> None:
    """However many come: a gap that is not filled is not asked for more often."""
    subend = subend_of()
    asked = []
    for number in range(1000):
        now_s = number / 1000
        subend.receive(told(2 * number + 1, 2 * number + 1, size=0), now_s)
        asked += subend.ask(now_s)
    assert len(asked) <= 4


def test_where_more_is_known_to_be_there_the_next_window_is_asked_for_at_once() -> None:
    """Also if the word for it came in the second part of an answer, and not if it came late."""
    subend = subend_of(start=begun_at((), 1000))
    assert nacks(subend.ask(0.0)) == [((0, FOREVER),)]
    subend.receive(told(0, 1), 0.1)
    subend.receive(told(2, 4, more=True), 0.1)
    assert ticks_of(subend) == [1, 4]
    assert nacks(subend.ask(0.1)) == [((5, FOREVER),)]
    subend.receive(told(2, 4, more=True), 0.2)
    subend.receive(told(5, 9), 0.2)
    assert ticks_of(subend) == [9]
    assert subend.ask(0.2) == []
    subend.receive(told(10, 12), 0.3)
    subend.receive(KnowledgeMessage(0, (), more=True, is_answer=True), 0.3)
    assert nacks(subend.ask(0.3)) == [((13, FOREVER),)]


def test_another_upstream_is_asked_at_once() -> None:
    """And told what is acknowledged."""
    subend = subend_of()
    subend.receive(told(0, 5), 0.0)
    ticks_of(subend)
    subend.acks()
    subend.reconnected()
    assert nacks(subend.ask(0.0)) == [((6, FOREVER),)]
    assert subend.acks() == [Ack(0, {"name": ((0, 6),)})]


# ---------------------------------------------------------------------- room


def test_what_there_is_no_room_for_is_forgotten_and_asked_for_when_there_is() -> None:
    """The latest first; a reader that takes nothing is asked nothing for."""
    subend = subend_of()
    for tick in range(30):
        subend.receive(told(tick, tick), 0.0)
        assert waiting_bytes_of(subend) <= ROOM_BYTES
    assert subend.ask(100.0) == []
    assert subend.ask_at_s() == inf
    assert ticks_of(subend) == list(range(10))
    assert subend.ask(100.0) == [Nack(0, ((10, FOREVER),), ROOM_BYTES)]


def test_what_is_behind_a_gap_leaves_room_for_what_is_in_it() -> None:
    """It would never be filled otherwise; and when to ask is known without having asked."""
    subend = subend_of()
    subend.receive(told(5, *range(5, 15)), 0.0)
    assert subend.ask_at_s() < inf
    assert subend.ask(0.0) == [Nack(0, ((0, 5), (10, FOREVER)), ROOM_BYTES // 2)]
    assert waiting_bytes_of(subend) == ROOM_BYTES // 2


def test_a_message_larger_than_the_room_waits_alone() -> None:
    """And is delivered, also where others come before its turn."""
    subend = subend_of()
    subend.receive(told(3, 3, 4), 0.0)
    subend.receive(told(0, 0, size=5 * ROOM_BYTES), 0.0)
    assert waiting_bytes_of(subend) == 5 * ROOM_BYTES
    assert ticks_of(subend) == [0]
    assert nacks(subend.ask(1.0)) == [((1, FOREVER),)]
    subend.receive(told(3, 3, size=5 * ROOM_BYTES), 1.0)
    subend.ask(1.0)
    assert waiting_bytes_of(subend) == 0


def test_a_large_message_for_which_there_is_no_room_is_not_asked_for_until_the_reader_takes_some() -> None:
    """Else it would come and be forgotten, again and again, as fast as it can be asked for."""
    subend = subend_of()
    subend.receive(told(0, 0), 0.0)
    subend.receive(told(1, 1, size=5 * ROOM_BYTES), 0.0)
    assert (subend.ask(0.0), subend.ask_at_s()) == ([], inf)
    for tick in (2, 3):  # which are behind a gap now
        subend.receive(told(tick, tick), 1.0)
        assert (subend.ask(100.0), subend.ask_at_s()) == ([], inf)
    assert ticks_of(subend) == [0]
    [asked] = nacks(subend.ask(100.0))
    assert asked[0] == (1, 2)
    subend.receive(told(1, 1, size=5 * ROOM_BYTES), 100.0)
    assert ticks_of(subend)[0] == 1


def test_gaps_that_nobody_fills_do_not_pile_up() -> None:
    """What is known between very many of them is forgotten, the latest first, and asked for later."""
    subend = subend_of()
    for number in range(3 * MOST_RANGES):
        subend.receive(KnowledgeMessage(0, ((10 * number + 5, 10 * number + 10),)), 0.0)
    [nack] = nacks(subend.ask(10.0))
    assert len(nack) <= MOST_RANGES + 1
    assert nack[-1][1] == FOREVER


def test_what_is_acknowledged_is_not_lost() -> None:
    """Though it was acknowledged in an earlier life, and what was known of it there was no room to remember."""
    subend = Subend("name", {0: begun_at(((0, 5), (6, 7)), 100)}, len, room_bytes=1)
    subend.receive(told(5, 5), 0.0)
    subend._incoming[0].stream.forget(6)
    subend._incoming[0]._look_again()
    assert [one.tick for one in subend.take()] == [5]
    subend.acknowledge(0, 5)
    assert (horizon_of(subend), subend.acknowledged(0).ranges()) == (6, ((0, 7),))
    subend.receive(KnowledgeMessage(0, (), lost_end=7), 0.0)
    with raises(DeliveryError):
        subend.receive(KnowledgeMessage(0, (), lost_end=8), 0.0)


def test_what_is_lost_raises_and_what_came_before_is_delivered() -> None:
    """Where messages may be forgotten that it has not had; not if it has had them."""
    subend = subend_of()
    subend.receive(told(0, 5), 0.0)
    subend.receive(KnowledgeMessage(0, ((6, 8),), lost_end=6), 0.0)
    with raises(DeliveryError):
        subend.receive(KnowledgeMessage(0, ((8, 30),), lost_end=20), 0.0)
    assert ticks_of(subend) == [5]
