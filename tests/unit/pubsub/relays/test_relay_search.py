"""How a subscriber finds its relay."""

from typing import Any

import pytest

from tidewheel.progress import IntegerDomain, ProtocolError
from tidewheel.pubsub import DeliveryError, TopicInfo
from tidewheel.pubsub.relays import relay_search
from tidewheel.pubsub.relays.relay_search import RelaySearch
from tidewheel.pubsub.subscribers.parents import ParentGone

INFO = TopicInfo("ranks", "job", IntegerDomain(), ("pubend 0", "pubend 1"), "first", delivery="exactly_once")


class World:
    """A catalog with relays, some of which are dead, and pubends."""

    def __init__(self, *relays: str) -> None:
        self.relays = list(relays)
        self.dead: dict[str, Exception] = {}
        self.has_catalog = True
        self.asked: list[Any] = []

    def ask(self, method: str, *arguments: Any) -> Any:
        assert (method, *arguments[:-1]) == ("parent", "ranks", "first", "here")
        if not self.has_catalog:
            raise DeliveryError("there is no catalog")
        avoid = arguments[-1]
        self.asked.append(avoid)
        self.relays = [relay for relay in self.relays if relay != avoid]
        return self.relays[0] if self.relays else None

    def find_relay(self, relay: str, reader: str, node: str) -> Any:
        assert (reader, node) == ("reader", "here")
        if relay in self.dead:
            raise self.dead[relay]
        return f"way to {relay}"

    def find_pubends(self, pubends: Any, reader: str, node: str, is_needed: Any) -> Any:
        assert (pubends, reader, node) == (INFO.partitions, "reader", "here")
        return f"way to {[pubend for number, pubend in enumerate(pubends) if is_needed(number)]}"


def search_in(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(relay_search, "ask_catalog", world.ask)
    monkeypatch.setattr(relay_search, "find_parent", world.find_relay)
    monkeypatch.setattr(relay_search, "find_pubends", world.find_pubends)
    return RelaySearch(INFO, "reader", "here", lambda number: number == 1)


def test_it_uses_the_relay_that_the_catalog_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """And asks for another when that is lost."""
    search = search_in(world := World("a", "b"), monkeypatch)
    assert search.begin()
    assert search.find(is_again=False) == "way to a"
    assert search.find(is_again=True) == "way to b"
    assert world.asked == [None, "a"]


@pytest.mark.parametrize("error", [ParentGone("dead", is_for_good=True), ParentGone("away"), ProtocolError("what?")])
def test_one_that_does_not_answer_is_avoided(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its reason is; if there is no other the pubends are used, those from which there is more to come."""
    search = search_in(world := World("a", "b", "c"), monkeypatch)
    world.dead = {"a": error, "b": error}
    assert search.begin()
    assert search.find(is_again=False) == "way to c"
    world.dead["c"] = error
    assert search.find(is_again=True) == "way to ['pubend 1']"
    assert world.asked == [None, "a", "b", "c"]
    world.relays = ["d"]
    assert search.find(is_again=True) == "way to d"


def test_relays_that_all_die_are_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the catalog knew nothing but dead ones."""
    search = search_in(world := World(*"abcdefgh"), monkeypatch)
    world.dead = dict.fromkeys("abcdefgh", ParentGone("dead"))
    assert search.begin()
    assert search.find(is_again=False) == "way to ['pubend 1']"
    assert len(world.relays) > 1


def test_it_does_without_relays_where_there_is_no_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is missed by nobody who has subscribed."""
    search = search_in(world := World("a"), monkeypatch)
    assert search.begin()
    world.has_catalog = False
    assert search.find(is_again=True) == "way to ['pubend 1']"
    assert not search.begin()
