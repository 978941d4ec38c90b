from tidewheel.progress import Antichain, IntegerDomain, MutableAntichain, ProductDomain

PAIRS = ProductDomain(IntegerDomain(), IntegerDomain())


def test_later_times_are_dropped_whichever_comes_first() -> None:
    """Only minimal times stay, in order of insertion; a time that is there already is not there twice."""
    assert list(Antichain(PAIRS, [(2, 2), (1, 1), (0, 4), (1, 1), (5, 5)])) == [(1, 1), (0, 4)]
    assert list(Antichain(PAIRS, [(1, 3), (3, 1), (1, 1)])) == [(1, 1)]


def test_questions_about_a_time() -> None:
    """``less_equal`` says whether a time can still occur, ``less_than`` whether an earlier one can."""
    frontier = Antichain(PAIRS, [(1, 1), (0, 4)])
    assert frontier.less_equal((1, 1))
    assert not frontier.less_than((1, 1))
    assert frontier.less_than((0, 5))
    assert not frontier.less_equal((0, 3))


def test_the_empty_frontier_lets_everything_pass() -> None:
    """Nothing can occur at an empty frontier; everything dominates it, and it dominates only itself."""
    empty, start = Antichain(PAIRS), Antichain(PAIRS, [(0, 0)])
    assert not empty.less_equal((9, 9))
    assert not empty.less_than((9, 9))
    assert start.dominates(empty)
    assert not empty.dominates(start)
    assert empty.dominates(Antichain(PAIRS))
    assert len(empty) == 0


def test_domination_needs_every_element() -> None:
    """An antichain dominates another only if each element of that is at or after one of its own."""
    frontier = Antichain(PAIRS, [(1, 1)])
    assert frontier.dominates(Antichain(PAIRS, [(1, 2), (2, 1)]))
    assert not frontier.dominates(Antichain(PAIRS, [(1, 2), (0, 9)]))


def test_equality_ignores_order_and_other_types() -> None:
    """Antichains are equal as sets are, hash alike then, and are equal to nothing else."""
    one, other = Antichain(PAIRS, [(1, 1), (0, 4)]), Antichain(PAIRS, [(0, 4), (1, 1)])
    assert one == other
    assert len({one, other}) == 1
    assert one != Antichain(PAIRS, [(1, 1)])
    assert Antichain(PAIRS, [(1, 1)]) != one
    assert one != {(1, 1), (0, 4)}


def test_printed_form_shows_the_elements() -> None:
    """A frontier in a message can be read."""
    assert repr(Antichain(PAIRS, [(1, 1), (0, 4)])) == "Antichain({(1, 1), (0, 4)})"
    assert repr(Antichain(PAIRS)) == "Antichain({})"
    assert (1, 1) in Antichain(PAIRS, [(1, 1)])
    assert (2, 2) not in Antichain(PAIRS, [(1, 1)])


INTEGERS = IntegerDomain()
PAIRS = ProductDomain(INTEGERS, INTEGERS)


def test_frontier_uncovers_the_next_times() -> None:
    """When the last of the minimal times goes, what was behind it comes forth, and the changes say so."""
    counts = MutableAntichain(PAIRS)
    assert counts.update([((0, 0), 1), ((0, 2), 1), ((2, 0), 1), ((2, 2), 1)]) == [((0, 0), 1)]
    assert counts.update([((0, 0), -1)]) == [((0, 0), -1), ((0, 2), 1), ((2, 0), 1)]
    assert counts.update([((0, 2), -1)]) == [((0, 2), -1)]
    assert set(counts.frontier) == {(2, 0)}


def test_a_time_is_held_while_its_count_is_positive() -> None:
    """A time counted twice stays in the frontier until both are gone."""
    counts = MutableAntichain(INTEGERS)
    counts.update([(3, 2)])
    assert counts.update([(3, -1)]) == []
    assert counts.update([(3, -1)]) == [(3, -1)]
    assert len(counts) == 0


def test_a_negative_count_holds_nothing_and_passes_nothing() -> None:
    """A report that comes before the one it undoes leaves the frontier to the positive counts."""
    counts = MutableAntichain(INTEGERS)
    counts.update([(5, 1)])
    assert counts.update([(3, -1)]) == []
    assert not counts.less_equal(3)
    assert list(counts.frontier) == [5]
    assert counts.update([(3, 1)]) == []
    assert dict(counts.counts()) == {5: 1}
    assert counts.update([(3, 1)]) == [(5, -1), (3, 1)]
    assert counts.update([(3, -2), (4, -1)]) == [(3, -1), (5, 1)]
    assert counts.update([(3, 2)]) == [(5, -1), (3, 1)]


def test_what_happens_within_a_batch_does_not_show() -> None:
    """A batch is applied at once: a time that comes and goes in it, or goes and comes back, changes no frontier."""
    counts = MutableAntichain(INTEGERS)
    counts.update([(5, 1)])
    assert counts.update([(3, 1), (3, -1)]) == []
    assert counts.update([(5, -1), (5, 1)]) == []
    assert counts.update([(5, -1), (4, 1), (4, -1), (5, 1)]) == []
    assert counts.update([(3, 1), (2, 1), (3, -1)]) == [(5, -1), (2, 1)]


def test_changes_of_0_do_nothing() -> None:
    """A change of 0 is no change, not even an entry."""
    counts = MutableAntichain(INTEGERS)
    assert counts.update([(1, 0)]) == []
    assert len(counts) == 0
    assert repr(counts) == "MutableAntichain({})"


def test_a_frontier_is_a_value_of_its_moment() -> None:
    """A frontier that somebody keeps does not move with the counts."""
    counts = MutableAntichain(INTEGERS)
    counts.update([(1, 1)])
    kept = counts.frontier
    counts.update([(1, -1), (2, 1)])
    assert list(kept) == [1]
    assert kept.domain == INTEGERS
