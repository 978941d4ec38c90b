"""For how long subscribers may hold back their publisher."""

import pytest

from tidewheel.pubsub.protocol.holds import Holds, held_too_long


class Taken(dict[str, int]):
    """How much each holder has taken; nothing, where nothing is said."""

    def __missing__(self, holder: str) -> int:
        return 0

    def __call__(self, holder: str) -> int:
        return self[holder]


def test_each_has_its_own_limit_from_when_it_began() -> None:
    """Those who hold later may hold for longer, and the alarm is for the first whose time is over."""
    holds, taken = Holds(), Taken()
    assert holds.left_s(0.0) is None
    assert holds.expired({"a": 60.0}, 0.0, taken) == []
    assert holds.expired({"a": 60.0, "b": 10.0}, 30.0, taken) == []
    assert holds.left_s(31.0) == 9.0
    assert holds.expired({"a": 60.0, "b": 10.0}, 39.9, taken) == []
    assert holds.expired({"a": 60.0, "b": 10.0}, 40.0, taken) == ["b"]
    assert holds.left_s(100.0) == 0.0
    assert holds.expired({"a": 60.0, "b": 10.0}, 60.0, taken) == ["a", "b"]


def test_who_lets_go_begins_anew() -> None:
    """Time that was held before does not count."""
    holds, taken = Holds(), Taken()
    holds.expired({"a": 60.0}, 0.0, taken)
    assert holds.expired({}, 50.0, taken) == []
    assert holds.left_s(50.0) is None
    assert holds.expired({"a": 60.0}, 55.0, taken) == []
    assert holds.expired({"a": 60.0}, 114.0, taken) == []
    assert holds.expired({"a": 60.0}, 115.0, taken) == ["a"]


def test_who_takes_something_may_go_on() -> None:
    """However little it is, the limit counts from when that was seen."""
    holds, taken = Holds(), Taken()
    for now_s in range(0, 500, 50):
        taken["a"] += 1
        assert holds.expired({"a": 60.0}, float(now_s), taken) == []
        assert holds.left_s(now_s) == 60.0
    assert holds.expired({"a": 60.0}, 509.9, taken) == []
    assert holds.expired({"a": 60.0}, 510.0, taken) == ["a"]


def test_what_others_take_does_not_count() -> None:
    """One that stands still is given up beside one that goes on."""
    holds, taken = Holds(), Taken()
    holders = {"still": 60.0, "moving": 60.0}
    holds.expired(holders, 0.0, taken)
    taken["moving"] += 1
    assert holds.expired(holders, 60.0, taken) == ["still"]


@pytest.mark.parametrize(("limit_s", "text"), [(60.0, "for 60 s"), (0.25, "for 0.25 s")])
def test_the_reason_says_for_how_long(limit_s: float, text: str) -> None:
    """And that it fell behind, as whoever is cut off did."""
    assert text in held_too_long(limit_s)
    assert held_too_long(limit_s).startswith("it fell too far behind")
