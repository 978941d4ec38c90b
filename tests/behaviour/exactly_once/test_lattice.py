"""The table of least upper bounds."""

from itertools import product

from tests.kit.exactly_once.lattice import LUB, Knowledge, lowered

Q, F, D, S, DSTAR, E = Knowledge

EDGES = {(Q, F), (Q, D), (F, DSTAR), (D, DSTAR), (F, S), (DSTAR, E), (S, E)}
"""The lines of the seed's figure 2, from the lower to the higher."""


def at_or_above(value: Knowledge) -> set[Knowledge]:
    """Return a value and all that can be reached from it upwards."""
    return {value}.union(*(at_or_above(higher) for lower, higher in EDGES if lower is value))


def test_the_table_has_the_least_upper_bounds_of_the_figure() -> None:
    """All 36: each is above both, and below whatever else is above both."""
    assert set(LUB) == set(product(Knowledge, Knowledge))
    for (one, other), bound in LUB.items():
        above_both = at_or_above(one) & at_or_above(other)
        assert [value for value in above_both if above_both <= at_or_above(value)] == [bound]


def test_the_table_is_a_lattice() -> None:
    """So it does not matter in what order, nor how often, something comes to be known; and an error stays one."""
    for one, other, third in product(Knowledge, Knowledge, Knowledge):
        assert LUB[one, other] is LUB[other, one]
        assert LUB[LUB[one, other], third] is LUB[one, LUB[other, third]]
    for value in Knowledge:
        assert LUB[value, value] is value
        assert LUB[Q, value] is value
        assert LUB[E, value] is E


def test_only_what_the_figure_says_is_an_error() -> None:
    """A message where there was silence, and nothing else, beside what is an error already."""
    errors = {pair for pair, bound in LUB.items() if bound is E and E not in pair}
    assert errors == {(D, S), (S, D), (DSTAR, S), (S, DSTAR)}


def test_lowering_leaves_three_values_and_errors() -> None:
    """D* and S become F, which is below both; what is lowered stays so, and has nothing new when it comes again."""
    assert [lowered(value) for value in Knowledge] == [Q, F, D, F, F, E]
    for value in Knowledge:
        assert value in at_or_above(lowered(value))
        assert lowered(LUB[lowered(value), value]) is lowered(value)
