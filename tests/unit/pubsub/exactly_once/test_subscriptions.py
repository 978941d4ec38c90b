"""The acknowledgements of subscriptions, and what nobody needs any more."""

from collections.abc import Mapping
from functools import reduce
from operator import xor

from tests.kit.exactly_once.subends import FRONTIERS, begun_at
from tests.simulation.disk import DiskRecords
from tidewheel.pubsub.exactly_once.consolidation import digest_of
from tidewheel.pubsub.exactly_once.living_readers import LivingReaders
from tidewheel.pubsub.exactly_once.pubend import Pubend
from tidewheel.pubsub.exactly_once.standing import Standing
from tidewheel.pubsub.exactly_once.subscriptions import Subscriptions
from tidewheel.pubsub.messages.delivery_messages import Ack, Begun, ConsolidatedAck, Ranges


def subscriptions_of(standings: Mapping[str, Standing] = {}) -> Subscriptions:
    return Subscriptions(Pubend(0, 1, DiskRecords(), len), standings, "topic 't', partition 0")


def begin(subscriptions: Subscriptions, name: str, tick: int = 0) -> Begun:
    """Begin a subscription, or have a reader of its name take it over."""
    return subscriptions.subscribe(name, name, tick, lambda _: FRONTIERS, durable=True, again=False)


def acknowledge(subscriptions: Subscriptions, name: str, ranges: Ranges) -> list[str]:
    return subscriptions.ack(Ack(0, {name: ranges}))


def test_without_subscriptions_nobody_knows_what_is_needed() -> None:
    """So nothing is said of it, and what those say who are not known is not taken."""
    subscriptions = subscriptions_of()
    assert subscriptions.needed_from is None
    assert acknowledge(subscriptions, "a", ((0, 10),)) == ["a"]
    assert (subscriptions.known, subscriptions.due(), subscriptions.reader_of("a")) == ({}, [], None)


def test_the_slowest_says_what_is_needed() -> None:
    """What others have had, and what it has had behind a gap, does not count."""
    subscriptions = subscriptions_of()
    begin(subscriptions, "slow", 10)
    begin(subscriptions, "fast", 10)
    assert not acknowledge(subscriptions, "fast", ((0, 100),))
    assert not acknowledge(subscriptions, "slow", ((20, 30),))
    assert subscriptions.needed_from == 10
    assert not acknowledge(subscriptions, "slow", ((10, 20),))
    assert subscriptions.needed_from == 30
    assert subscriptions.needing(31) == ["slow"]
    assert subscriptions.needing(30) == []
    subscriptions.end("slow")
    subscriptions.end("slow")
    assert subscriptions.needed_from == 100


def test_the_same_again_is_nothing_new() -> None:
    """Acknowledgements come again and again, and late ones say less than is known: nothing has to be logged then."""
    subscriptions = subscriptions_of()
    begin(subscriptions, "a")
    acknowledge(subscriptions, "a", ((0, 10), (20, 30)))
    [cursor] = subscriptions.due()
    assert cursor.standing is not None
    assert cursor.standing.ranges == ((0, 10), (20, 30))
    acknowledge(subscriptions, "a", ((0, 10), (20, 30)))
    acknowledge(subscriptions, "a", ((0, 5),))
    assert subscriptions.due() == []
    assert subscriptions.known["a"].acknowledged.ranges() == ((0, 10), (20, 30))


def test_who_comes_back_goes_on() -> None:
    """Wherever he says that he begins; and after a restart with what was kept of it."""
    subscriptions = subscriptions_of()
    begin(subscriptions, "a")
    acknowledge(subscriptions, "a", ((0, 10),))
    assert begin(subscriptions, "a", 50) == begun_at(((0, 10),))
    subscriptions.due()
    again = subscriptions_of(subscriptions.noted)
    assert (again.name_of("a"), again.is_durable("a")) == ("a", True)
    assert begin(again, "a", 50) == begun_at(((0, 10),))


# ---------------------------------------------------------------------- relays

RELAY, OTHER = "relay/1", "relay/2"


def consolidated(end: int, *readers: str, names: dict[str, bool] | None = None) -> ConsolidatedAck:
    """Return what a relay says of its readers; by default it names all of them."""
    digest = reduce(xor, map(digest_of, readers), 0)
    named = dict.fromkeys(readers, True) if names is None else names
    return ConsolidatedAck(0, end, digest, 0, named, is_all=names is None)


def read_live(subscriptions: Subscriptions, *readers: str, start: int = 0) -> None:
    """Begin subscriptions that are not durable."""
    for reader in readers:
        subscriptions.subscribe(f"of {reader}", reader, start, lambda _: FRONTIERS, durable=False, again=False)


def count(subscriptions: Subscriptions) -> int:
    return subscriptions.count(subscriptions.known)


def test_a_relay_stands_for_its_readers() -> None:
    """A publisher keeps one position for all of them; durable subscriptions have their own."""
    subscriptions = subscriptions_of()
    read_live(subscriptions, "a", "b")
    begin(subscriptions, "durable", 3)
    assert subscriptions.ack(consolidated(10, "a", "b"), RELAY) == []
    assert subscriptions.known.keys() == {RELAY, "durable"}
    assert (count(subscriptions), subscriptions.needed_from, subscriptions.needing(10)) == (3, 3, ["durable"])
    acknowledge(subscriptions, "durable", ((0, 100),))
    assert subscriptions.ack(consolidated(20, "a", "b", names={}), RELAY) == []
    assert (subscriptions.needed_from, subscriptions.needing(21)) == (20, [RELAY])


def test_nothing_is_taken_for_acknowledged_by_a_reader_that_is_not_named() -> None:
    """Its own position counts until then, though the relay is said to be further."""
    subscriptions = subscriptions_of()
    read_live(subscriptions, "a", "late")
    assert subscriptions.ack(consolidated(10, "a"), RELAY) == []
    assert subscriptions.needed_from == 0
    assert subscriptions.ack(consolidated(50, "a", "late", names={}), RELAY) == [""]
    assert subscriptions.needed_from == 0
    assert subscriptions.ack(consolidated(50, "a", "late", names={"late": True}), RELAY) == []
    assert (subscriptions.needed_from, set(subscriptions.known)) == (50, {RELAY})
    read_live(subscriptions, "slow", start=20)
    assert subscriptions.ack(consolidated(20, "a", "late", "slow", names={"slow": True}), RELAY) == []
    assert subscriptions.needed_from == 20


def test_a_reader_that_its_relay_has_lost_keeps_its_messages_for_a_lease() -> None:
    """From where all of the relay were; until another relay names it, or it subscribes again by itself."""
    subscriptions = subscriptions_of()
    living = LivingReaders(subscriptions.known, lease_s=60.0, retention_s=1000.0)
    subscriptions.ack(consolidated(10, "a", "b", "c", "d"), RELAY)
    subscriptions.ack(consolidated(90, "d", names=dict.fromkeys("abc", False)), RELAY)
    assert (subscriptions.needed_from, count(subscriptions)) == (10, 4)
    living.look((), now_s=100.0)
    assert set(living.living(159.0)) >= {"a", "b", "c"}
    subscriptions.ack(consolidated(15, "a"), OTHER)
    read_live(subscriptions, "b", start=20)
    assert subscriptions.known.keys() == {RELAY, OTHER, "of b", "c"}
    living.seat("of b", now_s=100.0)
    assert living.look((), now_s=200.0).over == [RELAY]
    assert "c" in living.look((), now_s=220.0).over


def test_a_relay_that_is_lost_loses_its_readers() -> None:
    """Each keeps its messages, but for one that has left, and one that is behind another relay by now."""
    subscriptions = subscriptions_of()
    read_live(subscriptions, "a", "b", "left")
    subscriptions.ack(consolidated(10, "a", "b", "left"), RELAY)
    subscriptions.ack(consolidated(30, "b"), OTHER)
    subscriptions.leave("left", ())
    subscriptions.lost("somebody")
    subscriptions.lost(RELAY)
    assert subscriptions.known.keys() == {"a", OTHER}
    assert subscriptions.needed_from == 10
    subscriptions.ack(consolidated(40, "a"), RELAY)
    assert (set(subscriptions.known), subscriptions.needed_from) == ({RELAY, OTHER}, 30)
    subscriptions.ack(consolidated(0), RELAY)
    assert subscriptions.known.keys() == {"a", OTHER}


def test_a_reader_that_left_before_its_relay_named_it_is_not_kept() -> None:
    """Its last word to the publisher was quicker than that of the relay."""
    subscriptions = subscriptions_of()
    read_live(subscriptions, "quick")
    subscriptions.leave("quick", ((0, 10),))
    subscriptions.ack(consolidated(10, "quick"), RELAY)
    subscriptions.ack(consolidated(0, names={"quick": False}), RELAY)
    assert subscriptions.known == {}


def test_readers_of_relays_are_known_again_after_a_restart() -> None:
    """The relay names them; they need not subscribe again."""
    subscriptions = subscriptions_of()
    assert subscriptions.ack(consolidated(10, "a", "b", names={}), RELAY) == [""]
    assert subscriptions.ack(consolidated(10, "a", "b"), RELAY) == []
    assert (count(subscriptions), subscriptions.needed_from) == (2, 10)
    assert subscriptions.due() == []
