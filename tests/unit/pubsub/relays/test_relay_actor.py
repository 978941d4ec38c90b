"""The actor around a relay, between pubends and readers, over sockets and by calls: each dies and comes again."""

from pathlib import Path

import pytest

from tests.kit.exactly_once.relayed import DEADLINE_S, ELSEWHERE, NODE, Handle, OneTopic, topic_of
from tests.kit.messages import raises
from tests.waiting import WITHIN_S, eventually
from tidewheel.pubsub.exactly_once.asked import Asked
from tidewheel.pubsub.exactly_once.round_trips import RoundTrips
from tidewheel.pubsub.messages.delivery_messages import Ack, ConsolidatedAck, Downstream, KnowledgeMessage, Nack
from tidewheel.pubsub.messages.frames import Join
from tidewheel.pubsub.messages.tick_set import FOREVER
from tidewheel.pubsub.messages.wire import Rejected
from tidewheel.pubsub.relays.relay_actor import RelayStatistics
from tidewheel.pubsub.subscribers.parents import Parent, ParentGone, find_parent


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Announce and begin again without much delay."""
    monkeypatch.setattr("tidewheel.pubsub.relays.relay_actor.ANNOUNCE_S", 0.05)
    monkeypatch.setattr("tidewheel.pubsub.relays.relay_actor._AGAIN_S", 0.01)


class Patience(RoundTrips):
    """What a peer takes to answer that is never asked twice."""

    def wait_s(self, in_vain: int) -> float:
        return DEADLINE_S


def serving(relay: Handle) -> Handle:
    """Return a relay once it has all its parents."""
    assert relay.run(relay.actor.serves(WITHIN_S))
    return relay


@pytest.mark.parametrize("consolidates", [False, True], ids=["each", "together"])
@pytest.mark.parametrize("node", [NODE, ELSEWHERE], ids=["sockets", "calls"])
def test_everybody_gets_everything_once(tmp_path: Path, node: str, *, consolidates: bool) -> None:
    """Two relays and a relay of a relay, readers with and without a filter, and one that comes late and wants all."""
    with topic_of(tmp_path) as topic:
        upper = serving(topic.relay(node=node))
        other = serving(topic.relay())
        lower = serving(topic.relay(upper))
        for name, parent, divisor in (("a", upper, 1), ("b", other, 3), ("c", lower, 1), ("d", lower, 2)):
            topic.reader(name, parent, divisor=divisor, node=node, consolidates=consolidates)
        topic.reader("direct", consolidates=consolidates)
        topic.publish(20)
        topic.read_all()
        topic.reader("late", lower, start=0, consolidates=consolidates)
        topic.publish(20, size=30_000)
        topic.read_all()
        assert topic.statistics(upper).children == 2
        assert topic.statistics(lower).children == 3


@pytest.mark.parametrize("consolidates", [False, True], ids=["each", "together"])
@pytest.mark.parametrize("node", [NODE, ELSEWHERE], ids=["sockets", "calls"])
def test_pubends_and_relays_that_die_lose_nothing(tmp_path: Path, node: str, *, consolidates: bool) -> None:
    """A pubend starts again; then a relay does; then one dies for good, and its readers go elsewhere."""
    with topic_of(tmp_path) as topic:
        first, second = (serving(topic.relay(node=node)) for _ in range(2))
        lower = serving(topic.relay(first, node=node))
        readers = [
            topic.reader(str(number), parent, node=node, consolidates=consolidates)
            for number, parent in enumerate([first, second, lower])
        ]
        topic.publish(5)
        topic.read_all()
        topic.pubends[1].kill()
        topic.publish(5)
        topic.pubends[1].start()
        topic.read_all()
        first.kill()
        topic.publish(5)
        first.start()
        topic.read_all()
        second.kill()
        topic.publish(5)
        readers[1].move(first)
        topic.publish(5)
        topic.read_all()


def test_who_does_not_read_costs_no_more_than_what_may_wait(tmp_path: Path) -> None:
    """Here, beside what its socket takes. Others are served meanwhile; when it reads again it gets all, in order."""
    with topic_of(tmp_path, pubends=1) as topic:
        relay = serving(topic.relay(waiting_bytes=500_000, cache_bytes=1 << 20))
        quick, slow = topic.reader("quick", relay), topic.reader("slow", relay)
        topic.publish()
        topic.read_all()
        for _ in range(200):
            topic.publish(size=100_000)
            topic.read_all(readers=[quick])
            assert topic.statistics(relay).waiting_bytes <= 500_000
        statistics = topic.statistics(relay)
        assert statistics.dropped > 50
        assert statistics.cached_bytes <= 1 << 20
        topic.read_all(readers=[slow])


def test_two_hundred_who_miss_the_same_cost_one_question(tmp_path: Path) -> None:
    """What a pubend tells is lost on the way to the relay; it asks once for all.

    It is patient then, or it would ask again where the answer of a busy machine takes longer than answers mostly do.
    What it has asked before is forgotten, as the answers are lost as well.
    """
    with topic_of(tmp_path, pubends=1) as topic:
        relay = serving(topic.relay())
        for number in range(200):
            topic.reader(str(number), relay)
        topic.publish()
        topic.read_all()
        [line] = relay.actor._relay._lines
        heard = topic.statistics(relay).nacks_heard
        lost: list[Downstream] = []
        [way] = relay.actor._parents
        told, way._told = way._told, lost.extend
        topic.publish(10)
        assert eventually(lambda: sum(len(one.data) for one in lost if isinstance(one, KnowledgeMessage)) == 20)

        async def lose_no_more() -> int:
            way._told, line.asked = told, Asked()
            line.asked._trips = Patience()
            statistics: RelayStatistics = await relay.actor.statistics()
            return statistics.nacks_asked

        asked = relay.run(lose_no_more())
        topic.publish()
        topic.read_all()
        after = topic.statistics(relay)
        assert after.nacks_heard - heard > 100  # some had asked before for whatever comes
        assert after.nacks_asked - asked == 1


def rejection(parent: Parent) -> Rejected:
    """Wait until a parent has told that it tells nothing more."""
    found: list[Rejected] = []

    def is_told() -> bool:
        found.extend(message for message in parent.read() if isinstance(message, Rejected))
        return bool(found)

    assert eventually(is_told)
    return found[0]


def test_who_speaks_of_pubends_that_there_are_not_is_rejected(tmp_path: Path) -> None:
    """With what was wrong; others are served, and nothing fails inside."""
    with topic_of(tmp_path, pubends=1) as topic:
        relay = serving(topic.relay())
        reader = topic.reader("reader", relay)
        wrong = find_parent(relay, "wrong", NODE)
        for message in (Nack(1, ((0, 5),), 100), Ack(7, {"wrong": ((0, 5),)}), Nack(FOREVER, ((0, 5),), 100)):
            wrong.say([Join("wrong", None)])
            wrong.say([message])
            assert f"it spoke of pubend {message.pubend}, and there are 1" in rejection(wrong).reason
        topic.publish()
        topic.read_all(readers=[reader])
        wrong.close()


def test_a_parent_that_tells_of_another_pubend_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is looked for again."""
    with topic_of(tmp_path, pubends=1) as topic:
        relay = serving(topic.relay())
        reader = topic.reader("reader", relay)
        topic.publish()
        topic.read_all()
        children = topic.pubends[0].actor._durable.connections.children
        strange = KnowledgeMessage(5, ((0, 7),))
        topic.loop.call_soon_threadsafe(lambda: [children._children[name].tell(strange) for name in children.names])
        assert eventually(lambda: "it tells of pubend 5 of 1" in caplog.text)
        topic.publish()
        topic.read_all(readers=[reader])


def test_another_life_of_the_topic(tmp_path: Path) -> None:
    """When its topic has ended a relay lets go of everybody; it takes on nobody until there is another."""
    with topic_of(tmp_path / "old", pubends=2) as old, topic_of(tmp_path / "new", pubends=1) as new:
        registry = OneTopic(old.pubends, 2)
        relay = serving(old.relay_of(registry))
        reader = old.reader("reader", relay)
        old.publish(3)
        old.read_all()
        assert eventually(lambda: registry.announced == {"relay/relay-0": ("first", 1)})
        registry.current = None
        for pubend in old.pubends:
            pubend.kill()
            pubend.is_dead = True
        assert eventually(lambda: not reader.is_connected())
        with raises(ParentGone) as caught:
            find_parent(relay, "reader", NODE)
        assert not caught.value.is_for_good
        registry.begin("second", new.pubends, 1)
        assert eventually(lambda: registry.announced["relay/relay-0"] == ("second", 0))
        new.reader("another", relay)
        new.publish(3)
        new.read_all()


@pytest.mark.parametrize("is_for_good", [False, True], ids=["away", "dead"])
def test_a_relay_leaves_another_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_for_good: bool
) -> None:
    """It goes to the next one; its readers stay connected and miss nothing, and the pubend keeps one position."""
    monkeypatch.setattr("tidewheel.pubsub.relays.relay_parent.AWAY_S", 0.0 if is_for_good else 0.2)
    with topic_of(tmp_path) as topic:
        first, second = serving(topic.relay()), serving(topic.relay())
        registry = OneTopic([first], len(topic.pubends))
        registry.others = [second]
        lower = serving(topic.relay_of(registry))
        readers = [topic.reader(str(number), lower, consolidates=True) for number in range(2)]
        readers.append(topic.reader("even", lower, divisor=2, consolidates=True))
        topic.publish(3)
        topic.read_all()
        first.is_dead = is_for_good
        first.kill()
        topic.publish(3)
        topic.read_all()
        assert topic.statistics(second).children == 1
        assert topic.statistics(lower).children == 3
        assert registry.others == []


def test_a_relay_of_another_life_is_no_parent(tmp_path: Path) -> None:
    """It would tell of messages that this life of the topic does not have."""
    with topic_of(tmp_path, pubends=1) as topic:
        upper = serving(topic.relay())
        with raises(ParentGone):
            find_parent(upper, "relay/below", NODE, registration="second")
        find_parent(upper, "relay/below", NODE, registration="first").close()


def test_readers_are_known_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The relay says so for those that have nothing to say, and repeats what they have acknowledged."""
    monkeypatch.setattr("tidewheel.pubsub.relays.relay_actor.SIGN_OF_LIFE_S", 0.2)
    with topic_of(tmp_path, pubends=1) as topic:
        upper = serving(topic.relay())
        lower = serving(topic.relay(upper))
        readers = [topic.reader("near", upper), topic.reader("far", lower)]
        topic.publish()
        topic.read_all()
        heard: list[Ack] = []
        pubend = topic.pubends[0].actor
        core_ack = pubend._durable.core.ack

        def hear(child: str, ack: Ack | ConsolidatedAck) -> None:
            heard.extend([ack] if isinstance(ack, Ack) else [])
            core_ack(child, ack)

        pubend._durable.core.ack = hear
        for _ in range(3):
            heard.clear()
            assert eventually(lambda: {name for ack in heard for name in ack.acks} == {"near", "far"})
        ends = {name: ranges[-1][1] for ack in heard for name, ranges in ack.acks.items() if ranges}
        assert min(ends.values()) > 0
        readers[0].close()
        assert eventually(lambda: topic.statistics(upper).children == 1)
        heard.clear()
        assert eventually(lambda: sum(bool(ack.acks) for ack in heard) >= 3)
        assert {name for ack in heard[1:] for name in ack.acks} == {"far"}


def test_a_pubend_has_one_position_of_all_readers_of_a_tree(tmp_path: Path) -> None:
    """That of the upper relay; when it dies, one of each reader, until the readers are behind a relay again."""

    async def look() -> tuple[set[str], int, list[str]]:
        core = topic.pubends[0].actor._durable.core
        return set(core.subscriptions.known), core.subscriptions.count(core.subscriptions.known), core.unread()

    def known() -> tuple[set[str], int, list[str]]:
        return topic.pubends[0].run(look())

    with topic_of(tmp_path, pubends=1) as topic:
        upper = serving(topic.relay())
        lower = serving(topic.relay(upper))
        for number in range(4):
            topic.reader(str(number), (upper, lower)[number % 2], consolidates=True)
        topic.publish(3)
        topic.read_all()
        assert eventually(lambda: known() == ({"relay/relay-0"}, 4, [])), known()
        upper.kill()
        assert eventually(lambda: known()[:2] == (set("0123"), 4)), known()
        topic.publish(3)
        assert set(known()[2]) == set("0123")
        upper.start()
        topic.read_all()
        assert eventually(lambda: known() == ({"relay/relay-0"}, 4, [])), known()
        topic.pubends[0].kill()
        topic.pubends[0].start()
        assert eventually(lambda: known() == ({"relay/relay-0"}, 4, [])), known()


def test_it_says_when_it_is_full(tmp_path: Path) -> None:
    """As soon as so many children are connected."""
    with topic_of(tmp_path) as topic:
        relay = serving(topic.relay())
        assert not relay.run(relay.actor.is_full(2, 0.0))
        for name in ("a", "b"):
            topic.reader(name, relay)
        topic.publish()
        topic.read_all()
        assert relay.run(relay.actor.is_full(2, WITHIN_S))
        assert not relay.run(relay.actor.is_full(3, 0.0))
