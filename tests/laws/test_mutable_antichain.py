"""Counted antichains against a `Counter`, under any signed changes in any batches."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.domains import DOMAINS, time_pool
from tests.laws.oracles import minimal_times
from tests.laws.strategies import SEEDS, count_changes, law_settings
from tidewheel.progress import Antichain, MutableAntichain, Time, TimeDomain, antichain

every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS.keys())


@every_domain
@law_settings(40)
@given(data=st.data())
def test_frontier_is_minimal_among_positive_counts(domain: TimeDomain, data: st.DataObject) -> None:
    """After every batch the frontier is the minimal times of positive count, and the changes lead from old to new."""
    counted = MutableAntichain(domain)
    counts: Counter[Time] = Counter()
    followed: Counter[Time] = Counter()
    for batch in data.draw(st.lists(count_changes(domain), max_size=10)):
        before = set(counted.frontier)
        changes = counted.update(batch)
        for time, difference in batch:
            counts[time] += difference
        expected = minimal_times(domain, (time for time, count in counts.items() if count > 0))

        assert set(counted.frontier) == expected
        assert counted.frontier == Antichain(domain, expected)
        assert len(counted.frontier) == len(expected)
        assert sorted(map(repr, changes)) == sorted(
            repr(change) for change in [*((t, -1) for t in before - expected), *((t, 1) for t in expected - before)]
        )
        for time, difference in changes:
            followed[time] += difference
        assert {time for time, count in followed.items() if count} == expected

        assert dict(counted.counts()) == {time: count for time, count in counts.items() if count}
        assert len(counted) == sum(1 for count in counts.values() if count)
        for time in time_pool(domain)[:12]:
            assert counted.less_equal(time) == any(domain.less_equal(element, time) for element in expected)


@every_domain
@law_settings(25)
@given(data=st.data())
def test_batching_does_not_matter(domain: TimeDomain, data: st.DataObject) -> None:
    """The same changes lead to the same frontier, all at once or one at a time, in any order."""
    changes = data.draw(count_changes(domain, max_size=12))
    at_once, one_by_one = MutableAntichain(domain), MutableAntichain(domain)
    at_once.update(changes)
    for change in data.draw(st.permutations(changes)):
        one_by_one.update([change])
    assert at_once.frontier == one_by_one.frontier
    assert dict(at_once.counts()) == dict(one_by_one.counts())


def check_forest(counted: MutableAntichain) -> None:
    """Every time of positive count is in the frontier or hangs below one time, which is at or before it."""
    below = counted._below
    hung = [time for later in below.values() for time in later]
    assert sorted(map(repr, [*hung, *counted._frontier])) == sorted(map(repr, below)), "each hangs in one place"
    assert {time for time, count in counted.counts() if count > 0} <= set(below)
    assert all(counted.domain.less_equal(time, later) for time in below for later in below[time])
    assert all(counted.count(time) > 0 for time in counted._frontier)
    assert counted._stale == sum(1 for time in below if counted.count(time) <= 0)


@every_domain
@law_settings(15)
@given(seed=SEEDS, few=st.sampled_from([0, 3, 32]), steps=st.integers(1, 80))
def test_the_forest_keeps_its_shape(domain: TimeDomain, seed: int, few: int, steps: int) -> None:
    """In long histories, too, where times that are gone are thrown out of it now and then."""
    random = Random(seed)
    pool = time_pool(domain)[:60]
    counted = MutableAntichain(domain)
    counts: Counter[Time] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(antichain, "_FEW", few)
        for _ in range(steps):
            changes = [(random.choice(pool), random.choice((-2, -1, -1, 1, 1, 1))) for _ in range(random.randint(1, 6))]
            changes = [change for change in changes if random.random() < 0.9 or counts[change[0]] > 0]
            counted.update(changes)
            for time, difference in changes:
                counts[time] += difference
            check_forest(counted)
            expected = minimal_times(domain, (time for time, count in counts.items() if count > 0))
            assert set(counted.frontier) == expected
