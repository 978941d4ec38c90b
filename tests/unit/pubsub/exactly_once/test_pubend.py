"""The source of knowledge: ticks, the order of news, answers from memory and from the log, and forgetting."""

from dataclasses import replace

import pytest

from tests.kit.exactly_once.subends import FRONTIERS, begun_at
from tests.kit.messages import raises
from tests.simulation.disk import MESSAGE, RESERVATION, DiskRecords
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.pubend import Pubend
from tidewheel.pubsub.exactly_once.subend import Subend
from tidewheel.pubsub.exactly_once.subscriptions import Subscriptions
from tidewheel.pubsub.messages.delivery_messages import (
    MOST_ANSWERED,
    MOST_ANSWERED_BYTES,
    RELAY_PREFIX,
    Ack,
    Begun,
    KnowledgeMessage,
    Nack,
    Ranges,
)
from tidewheel.pubsub.messages.tick_set import FOREVER


class Publishing:
    """A pubend with a disk, and one child.

    Args:
        cache_bytes: how much of what was published last it keeps in memory.
    """

    def __init__(self, cache_bytes: int = 1000) -> None:
        self.disk = DiskRecords()
        self.pubend = Pubend(0, 1, self.disk, len, cache_bytes=cache_bytes)
        self.pubend.fanout.join("child")
        self.subscriptions = Subscriptions(self.pubend, {}, "topic 't', partition 0")

    def publish(self, now: int, *messages: bytes) -> list[Outgoing]:
        assigned = self.pubend.assign(messages, now)
        for tick, message in assigned:
            self.disk.write(MESSAGE, tick, message)
        self.disk.sync(len(assigned))
        return self.pubend.logged(assigned[-1][0])

    def be_silent(self, now: int) -> list[Outgoing]:
        self.pubend.reserved(now)
        return self.pubend.be_silent(now)

    def subscribe(self, name: str, tick: int | None = None) -> Begun:
        return self.subscriptions.subscribe(name, name, tick, lambda _: FRONTIERS, durable=True, again=False)

    def ack(self, **acks: Ranges) -> list[str]:
        return self.subscriptions.ack(Ack(0, acks))

    def forget(self) -> int:
        """Forget what all have acknowledged; return the first tick that is kept."""
        return self.pubend.forget(self.subscriptions.needed_from)

    def ask(self, *ranges: tuple[int, int], room_bytes: int = 1000) -> list[KnowledgeMessage]:
        told = [outgoing.message for outgoing in self.pubend.nack("child", Nack(0, ranges, room_bytes))]
        assert all(isinstance(message, KnowledgeMessage) and message.is_answer for message in told)
        return [message for message in told if isinstance(message, KnowledgeMessage)]


def messages_of(told: list[KnowledgeMessage]) -> list[bytes]:
    return [message for one in told for _, message in one.data]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_ticks_grow_and_are_those_of_one_pubend(number: int) -> None:
    """By the clock, also where it stands still or goes back, and after many messages at once."""
    pubend = Pubend(number, 3, DiskRecords(), len, next_tick=50)
    clock = (0, 70, 70, 60, 1000)
    ticks = [tick for now in clock for tick, _ in pubend.assign([b"a", b"b", b"c"], now)]
    assert ticks == sorted(set(ticks))
    assert {tick % 3 for tick in ticks} == {number}
    assert (ticks[0] >= 50, ticks[3] >= 70, ticks[-3] >= 1000) == (True, True, True)
    assert pubend.pass_over(0) == ticks[-1] + 1
    assert pubend.assign([], 2000) == []


def test_what_is_no_message_has_a_tick_of_its_own() -> None:
    """Also where the clock stands still: that it is durable says nothing of a message behind it."""
    pubend = Pubend(0, 1, DiskRecords(), len)
    ticks = [pubend.pass_over(5), pubend.pass_over(5), pubend.assign([b"a"], 5)[0][0], pubend.pass_over(5)]
    assert ticks == [5, 6, 7, 8]
    assert pubend.logged(6) == []


def test_a_message_is_told_once_it_is_durable() -> None:
    """With the silence before it, and none of what comes after."""
    pubend = Pubend(0, 1, DiskRecords(), len)
    pubend.fanout.join("child")
    assert pubend.assign([b"a", b"b"], 5) == [(5, b"a"), (6, b"b")]
    assert pubend.assign([b"c"], 9) == [(9, b"c")]
    assert pubend.told_end == 0
    assert pubend.logged(6) == [Outgoing("child", KnowledgeMessage(0, ((0, 5),), ((5, b"a"), (6, b"b"))))]
    assert pubend.logged(6) == []
    assert pubend.told_end == 7
    assert pubend.logged(9) == [Outgoing("child", KnowledgeMessage(0, ((7, 9),), ((9, b"c"),)))]


def test_silence_is_told_as_far_as_it_is_reserved_and_nothing_waits() -> None:
    """A reservation is asked for in good time, and once; no message is put where silence was told."""
    pubend = Pubend(0, 1, DiskRecords(), len)
    pubend.fanout.join("child")
    assert pubend.be_silent(10) == []
    assert pubend.reserve(10, 100) == 110
    assert pubend.reserve(20, 100) is None
    assert pubend.be_silent(20) == []
    pubend.reserved(110)
    assert pubend.be_silent(20) == [Outgoing("child", KnowledgeMessage(0, ((0, 20),)))]
    assert pubend.assign([b"a"], 3) == [(20, b"a")]
    assert pubend.be_silent(50) == []
    pubend.logged(20)
    assert pubend.be_silent(500) == [Outgoing("child", KnowledgeMessage(0, ((21, 110),)))]
    assert pubend.reserve(500, 100) == 617, "the clock stood at 20 when it went back to 3"


def test_silence_is_promised_ahead_where_no_messages_come() -> None:
    """Half as far as there were none, and no further than is said; and never behind a message that waits."""
    pubend = Pubend(0, 1, DiskRecords(), len)
    pubend.reserved(10_000)
    pubend.be_silent(100, 60)
    assert pubend.told_end == 150
    pubend.be_silent(1000, 60)
    assert pubend.told_end == 1060
    assert pubend.assign([b"a"], 1000) == [(1060, b"a")]
    pubend.be_silent(1070, 60)
    assert pubend.told_end == 1060
    pubend.logged(1060)
    pubend.be_silent(1071, 60)
    assert pubend.told_end == 1076


def test_silence_is_promised_to_a_child_that_waits_for_it() -> None:
    """Once it is reserved. Later messages come behind it, and the clock goes on from there."""
    pubend = Pubend(0, 1, DiskRecords(), len)
    pubend.fanout.join("child")
    pubend.reserved(pubend.reserve(10, 100) or 0)
    pubend.be_silent(10)
    assert pubend.nack("child", Nack(0, ((10, 5000), (5000, FOREVER)), 1000)) == []
    assert pubend.wanted_end == 5000
    assert pubend.be_silent(11) == [Outgoing("child", KnowledgeMessage(0, ((10, 110),)))]
    pubend.reserved(pubend.reserve(11, 100) or 0)
    assert pubend.be_silent(11) == [Outgoing("child", KnowledgeMessage(0, ((110, 5001),)))]
    assert pubend.assign([b"a"], 12) == [(5002, b"a")]
    pubend.nack("child", Nack(0, ((10, 4000),), 1000))
    assert pubend.assign([b"b"], 13) == [(5003, b"b")]


def test_a_nack_is_answered_from_memory_and_from_the_log_alike() -> None:
    """As far as its room goes, with one message in any case, and with word of whether there is more."""
    publishing = Publishing(cache_bytes=20)
    for number in range(10):
        publishing.publish(10 * number, str(number).encode() * 10)
    assert messages_of(publishing.ask((0, FOREVER))) == [str(n).encode() * 10 for n in range(10)]
    for room_bytes, count in ((-5, 1), (0, 1), (1, 1), (30, 3), (31, 4)):
        [answer] = publishing.ask((0, FOREVER), room_bytes=room_bytes)
        assert (len(answer.data), answer.more) == (count, True)
        [answer] = publishing.ask((0, 5), (80, FOREVER), room_bytes=room_bytes)
        assert (len(answer.data), answer.more) == (min(count, 3), count < 3)
    assert publishing.ask((91, FOREVER)) == []
    assert publishing.ask((500, FOREVER)) == []
    assert publishing.ask((41, 45)) == [KnowledgeMessage(0, ((41, 45),), is_answer=True)]


@pytest.mark.parametrize("cache_bytes", [10, 1 << 30])
def test_an_answer_is_short_whatever_room_there_is(cache_bytes: int) -> None:
    """From memory as from the log; the child is told that there is more, asks again, and misses nothing."""
    publishing = Publishing(cache_bytes=cache_bytes)
    sent = [b"%07d" % number for number in range(3 * MOST_ANSWERED)]
    publishing.publish(0, *sent)
    found, first = list[bytes](), 0
    while len(found) < len(sent):
        [answer] = publishing.ask((first, FOREVER), room_bytes=1 << 40)
        assert 0 < len(answer.data) <= MOST_ANSWERED
        found += messages_of([answer])
        assert answer.more == (len(found) < len(sent))
        first = answer.end
    assert found == sent
    publishing.publish(publishing.pubend.told_end, *[bytes(MOST_ANSWERED_BYTES // 2)] * 4)
    [answer] = publishing.ask((first, FOREVER), room_bytes=1 << 40)
    assert (len(answer.data), answer.more) == (2, True)


def test_a_subend_that_is_far_behind_is_told_answers_only() -> None:
    """Until it has asked for everything: what it has no room for would be sent in vain. A relay has others to tell."""
    publishing = Publishing()
    relay = f"{RELAY_PREFIX}1"
    publishing.pubend.fanout.join(relay)
    publishing.publish(0, *[b"old"] * 2 * MOST_ANSWERED)
    publishing.pubend.nack(relay, Nack(0, ((0, FOREVER),), 1 << 40))
    [answer] = publishing.ask((0, FOREVER), room_bytes=1 << 40)
    at = publishing.pubend.told_end
    assert answer.end < at
    assert [child for child, _ in publishing.publish(at, b"live")] == [relay]
    while answer.more:
        [answer] = publishing.ask((answer.end, FOREVER), room_bytes=1 << 40)
    assert messages_of([answer])[-1] == b"live"
    assert {child for child, _ in publishing.publish(at + 10, b"next")} == {relay, "child"}


def test_who_is_no_child_gets_no_answer() -> None:
    """He may have joined before the pubend started again, and joins again."""
    publishing = Publishing()
    publishing.publish(5, b"a")
    publishing.pubend.fanout.leave("child")
    assert not publishing.pubend.fanout.children
    assert publishing.ask((0, FOREVER)) == []


def test_a_subscription_begins_with_what_is_told_next() -> None:
    """Also where messages wait to be durable; or from a tick that is still there; or goes on."""
    publishing = Publishing()
    publishing.publish(5, b"a")
    [(tick, _)] = publishing.pubend.assign([b"waits"], 9)
    assert publishing.subscribe("live") == begun_at(((0, 6),), 6)
    assert publishing.subscribe("all", 0) == begun_at((), 6)
    publishing.disk.write(MESSAGE, tick, b"waits")
    publishing.pubend.logged(tick)
    assert publishing.subscribe("live") == begun_at(((0, 6),), 10)
    assert publishing.ack(live=((0, 10),), all=((0, 6),), nobody=((0, 10),)) == ["nobody"]
    assert publishing.forget() == 6
    assert publishing.subscribe("late", 2) == replace(begun_at(((0, 6),), 10), lost_end=6)


def test_what_all_have_acknowledged_is_forgotten_and_final() -> None:
    """Not before, and nothing where nobody subscribes."""
    publishing = Publishing()
    publishing.publish(5, b"a")
    publishing.publish(8, b"b")
    assert publishing.forget() == 0
    publishing.subscribe("one", 0)
    publishing.subscribe("other", 0)
    publishing.ack(one=((0, 9),))
    assert publishing.forget() == 0
    publishing.ack(other=((0, 6),))
    assert publishing.forget() == publishing.pubend.first_tick == 6
    assert publishing.ask((0, FOREVER)) == [
        KnowledgeMessage(0, ((0, 6), (6, 8)), ((8, b"b"),), is_answer=True, lost_end=6)
    ]
    publishing.ack(one=((0, 1000),), other=((0, 1000),))
    assert publishing.forget() == 9


def test_who_needs_what_was_kept_for_long_enough_finds_out() -> None:
    """A subscription that has fallen too far behind is told, and never silently skips; one that has not goes on."""
    publishing = Publishing()
    pubend = publishing.pubend
    behind = Subend("behind", {0: publishing.subscribe("behind", 0)}, len)
    ahead = Subend("ahead", {0: publishing.subscribe("ahead", 0)}, len)
    for outgoing in publishing.publish(5, b"a"):
        ahead.receive(only(outgoing), 0.0)
    publishing.publish(8, b"b")
    assert publishing.subscriptions.needing(6) == ["behind", "ahead"]
    assert pubend.forget(6) == 6
    for outgoing in publishing.publish(11, b"c"):
        with raises(DeliveryError):
            behind.receive(only(outgoing), 0.0)
        ahead.receive(only(outgoing), 0.0)
    [answer] = publishing.ask((6, 9))
    ahead.receive(answer, 0.0)
    assert [one.message for one in ahead.take()] == [b"a", b"b", b"c"]
    assert behind.take() == []


def only(outgoing: Outgoing) -> KnowledgeMessage:
    assert isinstance(outgoing.message, KnowledgeMessage)
    return outgoing.message


def test_after_a_restart_it_goes_on_behind_all_that_was_told() -> None:
    """What was reserved is silent, whatever the clock says; what was logged is answered, and cursors are there."""
    publishing = Publishing()
    publishing.subscribe("a", 0)
    publishing.publish(5, b"a")
    publishing.disk.write(RESERVATION, 100)
    publishing.disk.sync(1)
    publishing.be_silent(100)
    publishing.ack(a=((0, 3),))
    again = Publishing()
    again.disk = publishing.disk
    again.pubend = Pubend(0, 1, again.disk, len, next_tick=again.disk.next_tick)
    again.pubend.fanout.join("child")
    publishing.subscriptions.due()
    again.subscriptions = Subscriptions(again.pubend, publishing.subscriptions.noted, "topic 't', partition 0")
    assert again.pubend.told_end == 100
    assert again.subscribe("a") == begun_at(((0, 3),), 100)
    assert again.pubend.be_silent(50) == []
    assert again.pubend.assign([b"b"], 50) == [(100, b"b")]
    assert again.ask((3, FOREVER)) == [KnowledgeMessage(0, ((3, 5), (6, 100)), ((5, b"a"),), is_answer=True)]
