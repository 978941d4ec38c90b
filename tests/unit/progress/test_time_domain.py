import pytest

from tests.laws.domains import VECTOR_CLOCK
from tidewheel.progress import (
    CompiledGraph,
    GraphShape,
    IntegerDomain,
    Nesting,
    OperatorShape,
    PathSummary,
    ProductDomain,
    Target,
    TimeDomain,
    Tracker,
    UnitDomain,
)
from tidewheel.progress.graph import Source


def test_an_incomplete_domain_cannot_be_made() -> None:
    """A user's domain that leaves out a part of the contract is refused when it is made, not when it is used."""

    class Incomplete(IntegerDomain, TimeDomain):
        summary_less_equal = TimeDomain.summary_less_equal
        __abstractmethods__ = frozenset({"summary_less_equal"})

    with pytest.raises(TypeError, match="summary_less_equal"):
        Incomplete()
    with pytest.raises(TypeError, match="abstract"):
        TimeDomain()  # type: ignore[abstract]


def test_less_than_is_strict_and_partial() -> None:
    """``less_than`` comes for free and follows the partial order, not the order of Python's tuples."""
    pairs = ProductDomain(IntegerDomain(), IntegerDomain())
    assert pairs.less_than((0, 1), (1, 1))
    assert not pairs.less_than((1, 1), (1, 1))
    assert not pairs.less_than((0, 2), (1, 1))


def test_in_order_leaves_two_that_are_in_no_order_as_they_were_given() -> None:
    """A user's domain gets it for free."""
    assert VECTOR_CLOCK.in_order([(1, 0), (0, 1)]) == [(1, 0), (0, 1)]
    assert VECTOR_CLOCK.in_order([(0, 1), (1, 0)]) == [(0, 1), (1, 0)]
    assert VECTOR_CLOCK.in_order([(2, 2), (1, 2), (0, 1)]) == [(0, 1), (1, 2), (2, 2)]
    assert VECTOR_CLOCK.in_order([]) == []


def test_a_summary_is_what_is_added() -> None:
    """Integers move by addition, from 0, in their usual order."""
    epochs = IntegerDomain()
    assert epochs.minimum() == 0
    assert epochs.results_in(3, 4) == 7
    assert epochs.followed_by(3, 4) == 7
    assert epochs.less_equal(3, 3)
    assert not epochs.less_equal(4, 3)
    assert epochs.less_than(3, 4)
    assert not epochs.less_than(3, 3)


def test_nothing_passes_the_maximum() -> None:
    """The greatest time itself can be reached; what would be later does not pass."""
    rounds = IntegerDomain(maximum=3)
    assert rounds.results_in(1, 2) == 3
    assert rounds.results_in(1, 3) is None
    assert rounds.followed_by(1, 2) == 3
    assert rounds.followed_by(2, 2) is None


def test_contains_whole_numbers_up_to_the_maximum() -> None:
    """A bool, a fraction and a number outside the range are no times."""
    rounds = IntegerDomain(maximum=3)
    assert [rounds.contains(value) for value in (0, 3)] == [True, True]
    assert not any(rounds.contains(value) for value in (-1, 4, True, 1.0, "1", None))


def test_the_default_maximum_fits_a_signed_64_bit_integer() -> None:
    """Epochs can be written as 64-bit integers anywhere."""
    assert IntegerDomain().contains(2**63 - 1)
    assert not IntegerDomain().contains(2**63)


def test_domains_are_equal_by_their_maximum() -> None:
    """Two scopes whose rounds count alike have equal domains; a bounded one is another domain."""
    assert IntegerDomain() == IntegerDomain()
    assert IntegerDomain(3) != IntegerDomain()


def test_integers_are_sorted() -> None:
    """In their usual order, which is a matter of n log n; a subclass that compares in another way keeps its own."""

    class Backwards(IntegerDomain):
        __slots__ = ()

        def less_equal(self, a: int, b: int) -> bool:
            return a >= b

    assert IntegerDomain().in_order(iter([3, 1, 2])) == [1, 2, 3]
    assert Backwards().in_order(iter([3, 1, 2])) == [3, 2, 1]
    many = list(range(200_000, 0, -1))
    assert IntegerDomain().in_order(many) == many[::-1]


def test_an_integer_domain_is_shown_as_it_is_written() -> None:
    """The greatest number of all is left out, so that a list of topics says no more than its reader has asked for."""
    assert repr(IntegerDomain()) == "IntegerDomain()"
    assert repr(IntegerDomain(maximum=3)) == "IntegerDomain(maximum=3)"
    assert repr(ProductDomain(IntegerDomain(), IntegerDomain(3))).count("IntegerDomain()") == 1


LOOP = ProductDomain(IntegerDomain(), IntegerDomain(maximum=3))


def test_pairs_are_ordered_in_both_coordinates_and_not_as_tuples() -> None:
    """``(0, 3)`` and ``(1, 2)`` are unordered, though Python orders the tuples."""
    assert (0, 3) <= (1, 2)
    assert not LOOP.less_equal((0, 3), (1, 2))
    assert not LOOP.less_equal((1, 2), (0, 3))
    assert LOOP.less_equal((0, 2), (1, 2))
    assert LOOP.minimum() == (0, 0)


def test_a_summary_moves_both_coordinates() -> None:
    """A pair of summaries moves a pair of times, and one that does not pass stops the other."""
    assert LOOP.results_in((1, 2), (5, 1)) == (6, 3)
    assert LOOP.results_in((1, 2), (5, 2)) is None
    assert LOOP.followed_by((1, 2), (1, 1)) == (2, 3)
    assert LOOP.followed_by((1, 2), (1, 2)) is None
    assert not LOOP.summary_less_equal((0, 1), (1, 0))
    assert LOOP.summary_less_equal(LOOP.identity(), (1, 0))


def test_contains_pairs_of_times_only() -> None:
    """Both coordinates are checked, and the pair itself."""
    assert LOOP.contains((7, 3))
    assert not any(LOOP.contains(value) for value in ((7, 4), (-1, 0), (1,), (1, 2, 3), [1, 2], 1, None))


def test_products_nest_on_either_side() -> None:
    """A product of products keeps the shape of its times."""
    nested = ProductDomain(LOOP, ProductDomain(UnitDomain(), IntegerDomain()))
    assert nested.minimum() == ((0, 0), ((), 0))
    assert nested.results_in(((1, 0), ((), 2)), ((3, 3), ((), 1))) == ((4, 3), ((), 3))
    assert not nested.contains(((0, 0), (0, 0)))


def test_pairs_are_put_in_order_by_the_first_coordinate_and_then_by_the_second() -> None:
    """Where neither of two is less, the epoch decides, and then the round."""
    assert LOOP.in_order([(1, 0), (0, 3), (2, 1), (1, 2), (0, 0)]) == [(0, 0), (0, 3), (1, 0), (1, 2), (2, 1)]


def test_a_coordinate_that_is_in_no_order_leaves_pairs_as_they_were_given() -> None:
    """What is in no order is not put in one by accident, such as that of a set."""
    pairs = ProductDomain(ProductDomain(IntegerDomain(), IntegerDomain()), IntegerDomain())
    clocks = ProductDomain(VECTOR_CLOCK, IntegerDomain())
    for count in range(1, 50):
        one, other = ((0, count), 7), ((count, 0), 3)
        assert pairs.in_order([other, one]) == [one, other]
        assert clocks.in_order([other, one]) == [other, one]
        assert clocks.in_order([one, other]) == [one, other]


def test_one_time_and_nothing_moves_it() -> None:
    """The unit domain has the empty tuple, at or before itself, and no other value."""
    unit = UnitDomain()
    assert unit.minimum() == () == unit.results_in(unit.identity(), ())
    assert unit.followed_by((), ()) == ()
    assert unit.less_equal((), ())
    assert unit.summary_less_equal((), ())
    assert not unit.less_than((), ())
    assert unit.contains(())
    others: tuple[object, ...] = (None, 0, (0,), False, [])
    assert not any(map(unit.contains, others))


def test_a_dataflow_without_epochs_only_ends() -> None:
    """In a dataflow of one time the frontier stays there until everything is gone."""
    nesting = Nesting((UnitDomain(),))
    graph = GraphShape(
        (
            OperatorShape("input", (), (nesting,), {}),
            OperatorShape("sink", (nesting,), (), {}),
            OperatorShape("map", (nesting,), (nesting,), {(0, 0): (PathSummary.identity(nesting),)}),
        ),
        ((Source(0, 0), Target(2, 0)), (Source(2, 0), Target(1, 0))),
    )
    compiled = CompiledGraph(graph)
    tracker = Tracker(compiled, 1, [Target(1, 0)])
    tracker.update([((compiled.index[Source(2, 0)], ()), -1)])
    assert list(tracker.frontier(Target(1, 0))) == [()]
    tracker.update([((compiled.index[Source(0, 0)], ()), -1)])
    assert list(tracker.frontier(Target(1, 0))) == []
    assert tracker.is_complete
