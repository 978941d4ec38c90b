"""Readers that live, that are warned of, and that are given up, without a clock."""

from math import inf

import pytest

from tidewheel.pubsub.exactly_once.consolidation import Readers
from tidewheel.pubsub.exactly_once.living_readers import LivingReaders, Overdue
from tidewheel.pubsub.exactly_once.subscription import Subscription
from tidewheel.pubsub.messages.tick_set import TickSet

NOTHING = Overdue([], [])


def subscription(reader: str, *, durable: bool) -> Subscription:
    return Subscription(TickSet(), reader=reader, is_durable=durable)


def readers(known: dict[str, Subscription] | None = None) -> LivingReaders:
    """A lease of 10 s and a retention of 100 s, and a subscription of each kind."""
    known = {} if known is None else known
    known["live"] = subscription("reader 1", durable=False)
    known["billing"] = subscription("reader 2", durable=True)
    found = LivingReaders(known, lease_s=10.0, retention_s=100.0)
    found.seat("live", 0.0)
    found.seat("billing", 0.0)
    return found


def test_who_has_just_come_lives() -> None:
    """For as long as a lease; then it has to be connected, or be heard of."""
    living = readers()
    assert (living.living(9.0), living.living(10.0)) == (["live", "billing"], [])


def test_who_is_connected_lives_and_dies_with_the_connection() -> None:
    """At once; its subscription waits for it from then on."""
    living = readers()
    assert living.look({"reader 1", "reader 2", "relay/1"}, 5.0) == NOTHING
    assert living.living(1000.0) == ["live", "billing"]
    assert living.look({"reader 2"}, 1000.0) == NOTHING
    assert living.living(1000.0) == ["billing"]
    assert living.look({"reader 2"}, 1009.0) == NOTHING
    assert living.look({"reader 2"}, 1010.0) == Overdue([], ["live"])


def test_who_is_heard_of_lives() -> None:
    """For a lease each time; word that comes late takes nothing away."""
    living = readers()
    living.look({"reader 1"}, 0.0)
    living.heard("live", 1.0)
    living.heard("nobody", 1.0)
    living.heard("billing", 9.0)
    assert living.living(18.0) == ["live", "billing"]
    assert living.look((), 18.0) == NOTHING
    assert living.living(18.0) == ["billing"]
    living.heard("live", 20.0)
    assert living.look((), 25.0) == NOTHING
    assert living.living(25.0) == ["live"]


def test_a_relay_that_hangs_is_given_up() -> None:
    """It stays connected, and says nothing for two leases; its readers are with other parents by then."""
    known = {"relay/1": Subscription(TickSet(), reader="relay/1", until_s=inf, readers=Readers())}
    living = LivingReaders(known, lease_s=10.0, retention_s=100.0)
    for now_s in (0.0, 9.0, 18.0):
        living.heard("relay/1", now_s)
        assert living.look({"relay/1"}, now_s + 1.0) == NOTHING
        assert living.living(now_s + 1.0) == ["relay/1"]
    assert living.look({"relay/1"}, 28.0) == NOTHING
    assert living.living(28.0) == []
    assert living.look({"relay/1"}, 38.0) == Overdue([], ["relay/1"])


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_durable_one_waits_for_long_and_warns_once(comes_back: bool) -> None:
    """Half way through; who comes back has all the time again."""
    known: dict[str, Subscription] = {}
    living = readers(known)
    living.leave("billing", 0.0)
    living.heard("live", 300.0)
    assert (living.look((), 49.0), living.look((), 50.0), living.look((), 99.0)) == (
        NOTHING,
        Overdue(["billing"], []),
        NOTHING,
    )
    assert living.away_s("billing", 99.0) == 99.0
    if comes_back:
        known["billing"].reader = "reader 3"
        living.seat("billing", 99.0)
        assert (living.look((), 150.0), living.look((), 159.0)) == (NOTHING, Overdue(["billing"], []))
    else:
        assert living.look((), 100.0) == Overdue([], ["billing"])
        del known["billing"]
        assert living.look((), 200.0) == NOTHING


def test_one_that_the_log_knows_waits_from_the_start() -> None:
    """Whoever had it before may come back, or be heard of, and does not live until then."""
    known = {"billing": subscription("reader 1", durable=True), "other": subscription("reader 2", durable=True)}
    living = LivingReaders(known, lease_s=10.0, retention_s=100.0)
    assert living.living(0.0) == []
    assert living.look({"reader 2"}, 1.0) == NOTHING
    assert living.living(1.0) == ["other"]
    del known["other"]
    living.heard("billing", 5.0)
    assert living.living(14.0) == ["billing"]
    assert living.look((), 114.0) == Overdue(["billing"], [])
    assert living.look((), 115.0) == Overdue([], ["billing"])


def test_what_was_ended_is_forgotten() -> None:
    """And so is who has left, also if it is connected for a while, or is heard of."""
    known: dict[str, Subscription] = {}
    living = readers(known)
    del known["live"]
    living.leave("billing", 1.0)
    living.leave("live", 1.0)
    living.heard("billing", 1.5)
    assert living.look({"reader 1", "reader 2"}, 2.0) == NOTHING
    assert living.living(2.0) == []
