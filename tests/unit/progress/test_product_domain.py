from tests.laws.domains import VECTOR_CLOCK
from tidewheel.progress import IntegerDomain, ProductDomain, UnitDomain

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
