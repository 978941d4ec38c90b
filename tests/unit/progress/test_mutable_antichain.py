from tidewheel.progress import IntegerDomain, MutableAntichain, ProductDomain

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
