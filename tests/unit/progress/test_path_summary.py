import pickle

import pytest

from tests.kit.messages import raises
from tidewheel.progress import ROOT, IntegerDomain, Nesting, PathSummary, ProductDomain, UnitDomain

LOOP = ROOT.inside(IntegerDomain())
INNER = LOOP.inside(IntegerDomain())


def path(*steps: PathSummary) -> PathSummary:
    """Compose steps that let some time pass."""
    whole = PathSummary.identity(steps[0].source)
    for step in steps:
        longer = whole.followed_by(step)
        assert longer is not None
        whole = longer
    return whole


def test_entering_appends_and_leaving_drops() -> None:
    """Inside a loop a time has a round, which starts at 0 and is forgotten outside."""
    assert PathSummary.enter(LOOP).results_in(7) == (7, 0)
    assert PathSummary.leave(LOOP).results_in((7, 5)) == 7
    assert path(PathSummary.enter(LOOP), PathSummary.leave(LOOP)) == PathSummary.identity(ROOT)


def test_a_round_is_counted_in_the_innermost_scope() -> None:
    """Advancing moves the innermost coordinate alone, also one that the path itself has added."""
    assert PathSummary.advance(INNER, 2).results_in(((7, 1), 3)) == ((7, 1), 5)
    around = path(PathSummary.enter(INNER), PathSummary.advance(INNER, 2))
    assert around.results_in((7, 1)) == ((7, 1), 2)
    assert (around.advances, around.appended) == ((0, 0), (2,))
    deeper = path(PathSummary.enter(LOOP), PathSummary.advance(LOOP, 5), PathSummary.enter(INNER))
    assert deeper.results_in(7) == ((7, 5), 0)


def test_leaving_and_entering_again_starts_from_round_0() -> None:
    """A path through the outside forgets the round, so it is no identity and does not advance."""
    again = path(PathSummary.leave(LOOP), PathSummary.enter(LOOP))
    assert again.results_in((7, 5)) == (7, 0)
    assert not again.is_identity
    assert not again.strictly_advances()


def test_an_advance_is_lost_outside_the_scope_that_counts_it() -> None:
    """Round the inner loop, out and in again: the inner round is forgotten, so the cycle does not advance."""
    cycle = path(PathSummary.advance(LOOP, 1), PathSummary.leave(LOOP), PathSummary.enter(LOOP))
    assert cycle.results_in((7, 5)) == (7, 0)
    assert not cycle.strictly_advances()
    outer = path(PathSummary.leave(LOOP), PathSummary.advance(ROOT, 1), PathSummary.enter(LOOP))
    assert outer.results_in((7, 5)) == (8, 0)
    assert outer.strictly_advances()
    assert PathSummary.advance(LOOP, 1).strictly_advances()


def test_identity_is_recognised() -> None:
    """Only a path that keeps and changes nothing is the identity."""
    assert PathSummary.identity(INNER).is_identity
    assert PathSummary.advance(INNER, 0).is_identity
    assert not PathSummary.advance(INNER, 1).is_identity
    assert not PathSummary.leave(LOOP).is_identity
    assert not PathSummary.enter(LOOP).is_identity
    assert PathSummary.identity(INNER).results_in(((7, 1), 3)) == ((7, 1), 3)


def test_rounds_past_the_maximum_do_not_pass() -> None:
    """A path stops the times whose round would exceed the maximum, and is none if it stops all."""
    few = ROOT.inside(IntegerDomain(maximum=3))
    twice = PathSummary.advance(few, 2)
    assert twice.results_in((7, 1)) == (7, 3)
    assert twice.results_in((7, 2)) is None
    assert twice.followed_by(twice) is None
    entered = path(PathSummary.enter(few), twice)
    assert entered.followed_by(twice) is None


def test_paths_must_meet() -> None:
    """Composing paths that do not meet is refused, with both nestings named."""
    with raises(ValueError):
        PathSummary.enter(LOOP).followed_by(PathSummary.enter(LOOP))
    other = ROOT.inside(UnitDomain())
    with raises(ValueError):
        PathSummary.enter(LOOP).followed_by(PathSummary.leave(other))


def test_order_of_paths_that_keep_the_same_coordinates() -> None:
    """Such paths are ordered coordinate by coordinate, and may be unordered."""
    once, twice = PathSummary.advance(LOOP, 1), PathSummary.advance(LOOP, 2)
    assert once.less_equal(twice)
    assert not twice.less_equal(once)
    outer = PathSummary(LOOP, LOOP, (1, 0))
    assert not once.less_equal(outer)
    assert not outer.less_equal(once)


def test_order_of_a_path_that_keeps_a_round_and_one_that_forgets_it() -> None:
    """A constant is below an advance if it is below what round 0 becomes; an advance is never below a constant."""
    keeps = PathSummary.advance(LOOP, 2)
    forgets = PathSummary(LOOP, LOOP, (0,), (2,))
    assert forgets.less_equal(keeps)
    assert not keeps.less_equal(forgets)
    assert not PathSummary(LOOP, LOOP, (0,), (3,)).less_equal(keeps)
    assert not PathSummary(LOOP, LOOP, (1,), (0,)).less_equal(keeps)


def test_order_of_paths_that_forget_different_rounds() -> None:
    """What two paths append is compared coordinate by coordinate, whichever of them keeps more."""
    assert PathSummary(INNER, INNER, (0,), (1, 2)).less_equal(PathSummary(INNER, INNER, (0,), (1, 3)))
    assert not PathSummary(INNER, INNER, (0,), (1, 2)).less_equal(PathSummary(INNER, INNER, (0,), (2, 1)))
    assert PathSummary(INNER, INNER, (0,), (1, 2)).less_equal(PathSummary(INNER, INNER, (0, 1), (2,)))
    assert not PathSummary(INNER, INNER, (0,), (1, 2)).less_equal(PathSummary(INNER, INNER, (0, 1), (1,)))


def test_anything_is_below_a_path_that_nothing_passes() -> None:
    """A path that stops every time, where another appends the round, holds nobody back."""
    few = ROOT.inside(IntegerDomain(maximum=3))
    assert PathSummary(few, few, (0,), (3,)).less_equal(PathSummary.advance(few, 4))


def test_scopes_with_other_coordinates_at_both_ends() -> None:
    """A path between two scopes keeps what is outside both."""
    other = ROOT.inside(UnitDomain())
    across = path(PathSummary.leave(LOOP), PathSummary.enter(other))
    assert across.results_in((7, 5)) == (7, ())
    assert across.target == Nesting((IntegerDomain(), UnitDomain()))


def test_summaries_are_values() -> None:
    """Summaries compare and hash by what they do, and travel between processes whole."""
    once = PathSummary.advance(LOOP, 1)
    assert once == path(PathSummary.advance(LOOP, 1), PathSummary.identity(LOOP))
    assert len({once, PathSummary.advance(LOOP, 1), PathSummary.advance(LOOP, 2)}) == 2
    travelled = pickle.loads(pickle.dumps(PathSummary.identity(LOOP)))
    assert travelled == PathSummary.identity(LOOP)
    assert travelled.is_identity


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (PathSummary.identity(ROOT), "unchanged"),
        (PathSummary.identity(LOOP), "unchanged"),
        (PathSummary.advance(ROOT, 3), "t becomes t + 3"),
        (PathSummary.enter(LOOP), "t becomes (t, 0)"),
        (PathSummary.leave(LOOP), "(t, r) becomes t"),
        (PathSummary(ROOT, LOOP, (2,), (5,)), "t becomes (t + 2, 5)"),
        (PathSummary(LOOP, LOOP, (0,), (0,)), "(t, r) becomes (t, 0)"),
        (PathSummary(LOOP, LOOP, (1, 2)), "(t, r) becomes (t + 1, r + 2)"),
        (PathSummary.advance(INNER, 1), "((t, r), r2) becomes ((t, r), r2 + 1)"),
        (PathSummary.leave(INNER), "((t, r), r2) becomes (t, r)"),
        (PathSummary(INNER, ROOT, (0,)), "((t, r), r2) becomes t"),
        (PathSummary(INNER, INNER, (0, 1), (0,)), "((t, r), r2) becomes ((t, r + 1), 0)"),
        (PathSummary.enter(INNER.inside(IntegerDomain())), "((t, r), r2) becomes (((t, r), r2), 0)"),
        (PathSummary.leave(Nesting((UnitDomain(), IntegerDomain()))), "(t, r) becomes t"),
    ],
)
def test_what_a_path_does_is_said_in_a_few_letters(path: PathSummary, text: str) -> None:
    """``t`` for the outermost time, ``r`` for rounds, ``r2`` for those of the loop within."""
    assert path.describe() == text


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
