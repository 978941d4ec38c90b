"""Subscribers are spread over the relays that are there."""

from tidewheel.pubsub.catalog.catalog_relays import KNOWN_S, CatalogRelays, RelayInfo


def relays_of(*relays: tuple[str, str, int]) -> CatalogRelays:
    """Return what is known when relays have been heard at 0: the name, the node and the children of each."""
    known = CatalogRelays()
    for name, node, children in relays:
        known.announce(relay(name, node, children), now_s=0.0)
    return known


def relay(name: str, node: str, children: int, registration: str = "first") -> RelayInfo:
    return RelayInfo(name, "ranks", registration, node, f"actor {name}", children)


def parents(known: CatalogRelays, node: str, count: int, now_s: float = 1.0) -> str:
    """Return whom so many subscribers of one node get, one after the other."""
    return "".join(known.parent("ranks", "first", node, now_s)[-1] for _ in range(count))


def test_who_has_the_fewest_children_gets_the_next() -> None:
    """Those count that it was just sent, until it says itself how many it has."""
    known = relays_of(("a", "here", 2), ("b", "here", 0), ("c", "there", 0))
    assert parents(known, "here", 5) == "bbaba"
    known.announce(relay("b", "here", 1), now_s=2.0)
    assert parents(known, "here", 3, now_s=2.0) == "bbb"


def test_a_relay_elsewhere_is_better_than_none() -> None:
    """Any with the fewest children."""
    known = relays_of(("a", "here", 2), ("b", "there", 0))
    assert parents(known, "elsewhere", 4) == "bbab"


def test_it_is_for_one_life_of_one_topic() -> None:
    """Others have nobody, also after that life has ended."""
    known = relays_of(("a", "here", 0))
    assert known.parent("ranks", "second", "here", 1.0) is None
    assert known.parent("others", "first", "here", 1.0) is None
    known.announce(relay("b", "here", 0, "second"), 1.0)
    known.forget_topic("first")
    assert known.parent("ranks", "first", "here", 1.0) is None
    assert known.parent("ranks", "second", "here", 1.0) == "actor b"


def test_who_is_not_heard_is_forgotten() -> None:
    """And who was found dead, or says so, at once; until it says that it is there."""
    known = relays_of(("a", "here", 0), ("b", "here", 0), ("c", "here", 9))
    assert known.parent("ranks", "first", "here", 1.0, avoid="actor a") == "actor b"
    assert parents(known, "here", 3) == "bbb"
    known.forget("b")
    known.forget("b")
    assert parents(known, "here", 1) == "c"
    known.announce(relay("a", "here", 0), now_s=1.0)
    assert parents(known, "here", 2, now_s=KNOWN_S + 1) == "aa"
    assert known.parent("ranks", "first", "here", KNOWN_S + 1.1) is None
    assert len(known) == 0
