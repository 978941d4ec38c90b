"""The union of filters: what a relay asks its parent for."""

import pytest

from tests.simulation.delivery.filters import Multiple
from tidewheel.pubsub.messages import filters
from tidewheel.pubsub.messages.filters import (
    MOST_FILTERS,
    FilterUnion,
    Wanted,
    digest_of,
    has_all,
    union_of,
)


def united(*wheres: Multiple | FilterUnion | None) -> FilterUnion:
    union = union_of(wheres)
    assert union is not None
    return union


def test_a_union_has_what_any_filter_lets_through() -> None:
    """Records that no filter wants are left out, and a message without others is silence."""
    union = united(Multiple(2), Multiple(3))
    assert union.of(b"5,7") is None
    assert union.of(b"5,4,9,6") == b"4,9,6"
    whole = b"4,9"
    assert union.of(whole) is whole


def test_unions_can_be_united_as_filters_are() -> None:
    """With filters and unions, also where one of them is empty."""
    assert (united(Multiple(2)) | united(Multiple(3))).of(b"4,9,5") == b"4,9"
    assert (united() | Multiple(3)).of(b"4,9,5") == b"9"
    assert (united() | united()).of(b"4,9,5") is None


def test_a_union_of_nothing_lets_nothing_through() -> None:
    """A relay without children needs no messages."""
    assert united().of(b"4") is None


def test_where_a_filter_raises_everything_passes() -> None:
    """The relay next to the child applies the filter again, and tells the child."""
    whole = b"5,no number"
    assert united(Multiple(2)).of(whole) is whole
    assert united(Multiple(2), Multiple(3)).of(whole) is whole


def test_a_union_has_one_digest_whatever_the_order() -> None:
    """Another set has another digest, also the empty one; 0 stands for everything."""
    assert united(Multiple(2), Multiple(3)) == united(Multiple(3), Multiple(2), Multiple(2))
    unions = [None, united(), united(Multiple(2)), united(Multiple(3)), united(Multiple(2), Multiple(3))]
    assert len({digest_of(union) for union in unions}) == len(unions)
    assert digest_of(None) == digest_of(Multiple(2)) == 0


def test_a_union_of_unions_is_flat() -> None:
    """A relay of relays asks for the filters of all of them."""
    below = united(Multiple(2), Multiple(3))
    assert united(below, Multiple(5)) == united(Multiple(2), Multiple(3), Multiple(5))
    assert has_all(united(below, Multiple(5)).filters, below)
    assert not has_all(below.filters, united(below, Multiple(5)))


def test_everything_is_asked_for_where_any_child_wants_it_or_filters_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or too large."""
    assert union_of([Multiple(2), None]) is None
    several = [Multiple(divisor) for divisor in range(2, MOST_FILTERS + 2)]
    assert len(united(*several).filters) == MOST_FILTERS
    assert union_of([*several, Multiple(100)]) is None
    monkeypatch.setattr(filters, "MOST_UNION_BYTES", 10)
    assert union_of([Multiple(2)]) is None


def test_it_grows_at_once_and_shrinks_when_it_is_told_to() -> None:
    """Each change is due to be told, and the last unions are remembered."""
    wanted = Wanted()
    assert not wanted.join("a", Multiple(2))
    assert wanted.digest == 0
    assert wanted.shrink()
    assert wanted.is_due
    assert wanted.earlier == {0: None}
    assert not wanted.join("b", Multiple(2))
    assert wanted.join("c", Multiple(3))
    assert wanted.union == united(Multiple(2), Multiple(3))
    wanted.leave("c")
    wanted.leave("c")
    assert wanted.union == united(Multiple(2), Multiple(3))
    assert wanted.shrink()
    assert not wanted.shrink()
    assert wanted.union == united(Multiple(2))
    assert wanted.earlier.keys() == {0, digest_of(united(Multiple(2), Multiple(3)))}


def test_few_earlier_unions_are_remembered() -> None:
    """However often they change."""
    wanted = Wanted()
    for divisor in range(2, 50):
        wanted.join("a", Multiple(divisor))
        wanted.shrink()
    assert len(wanted.earlier) < 10
