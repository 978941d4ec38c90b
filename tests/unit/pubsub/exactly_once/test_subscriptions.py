"""What subscriptions have acknowledged, and what nobody needs any more."""

from collections.abc import Mapping

from tests.kit.exactly_once.subends import FRONTIERS, begun_at
from tests.simulation_delivery.disk import Disk
from tidewheel.pubsub.exactly_once.messages import Ack, Begun, Ranges
from tidewheel.pubsub.exactly_once.pubend import Pubend
from tidewheel.pubsub.exactly_once.subscriptions import Subscriptions
from tidewheel.pubsub.publishers.partition_log import Standing


def subscriptions_of(standings: Mapping[str, Standing] = {}) -> Subscriptions:
    return Subscriptions(Pubend(0, 1, Disk(), len), standings, "topic 't', partition 0")


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
