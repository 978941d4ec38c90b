import pickle

import pytest

from tidewheel.progress import ROOT, IntegerDomain, Nesting, ProductDomain, UnitDomain

INTEGERS = IntegerDomain()
PAIRS = ProductDomain(INTEGERS, INTEGERS)


def test_scopes_add_coordinates_on_the_right() -> None:
    """Each scope pairs the times outside it with one coordinate more."""
    twice = ROOT.inside(INTEGERS).inside(UnitDomain())
    assert (ROOT.depth, twice.depth) == (0, 2)
    assert ROOT.domain == INTEGERS
    assert twice.domain == ProductDomain(ProductDomain(INTEGERS, INTEGERS), UnitDomain())
    assert twice.domain.minimum() == ((0, 0), ())
    assert twice.outside() == ROOT.inside(INTEGERS)


def test_coordinates_and_time_undo_each_other() -> None:
    """A time splits into its coordinates, outermost first, and they join into it again."""
    twice = ROOT.inside(INTEGERS).inside(INTEGERS)
    assert twice.coordinates(((1, 2), 3)) == (1, 2, 3)
    assert Nesting.time((1, 2, 3)) == ((1, 2), 3)
    assert ROOT.coordinates(7) == (7,)


def test_outermost_times_that_are_pairs_stay_whole() -> None:
    """Only what scopes have added is split off, though the user's own times may be pairs too."""
    loop = Nesting((PAIRS,)).inside(INTEGERS)
    assert loop.coordinates(((1, 2), 3)) == ((1, 2), 3)
    assert Nesting((PAIRS,)) != ROOT.inside(INTEGERS)


def test_nestings_are_values() -> None:
    """A nesting is equal to, and hashes like, another of the same domains, and travels between processes."""
    loop = ROOT.inside(INTEGERS)
    assert loop == Nesting((INTEGERS, INTEGERS))
    assert len({loop, Nesting((INTEGERS, INTEGERS)), ROOT}) == 2
    travelled = pickle.loads(pickle.dumps(loop))
    assert travelled == loop
    assert travelled.domain == loop.domain
    with pytest.raises(AttributeError):
        loop.coordinate_domains = ()  # type: ignore[misc]
