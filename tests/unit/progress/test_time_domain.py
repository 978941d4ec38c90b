import pytest

from tests.laws.domains import VECTOR_CLOCK
from tidewheel.progress import IntegerDomain, ProductDomain, TimeDomain


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
