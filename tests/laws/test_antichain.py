"""Antichains against brute force over the sets of times they were made from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.domains import DOMAINS
from tests.laws.oracles import minimal_times
from tests.laws.strategies import law_settings, times
from tidewheel.progress import Antichain, TimeDomain

every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS.keys())


@every_domain
@law_settings(25)
@given(data=st.data())
def test_elements_are_the_minimal_times(domain: TimeDomain, data: st.DataObject) -> None:
    """An antichain holds exactly the minimal elements of the times it was made of, each once, in whatever order."""
    drawn = data.draw(st.lists(times(domain), max_size=8))
    antichain = Antichain(domain, drawn)
    assert set(antichain) == minimal_times(domain, drawn)
    assert len(antichain) == len(list(antichain)) == len(set(antichain))
    assert all((time in antichain) == (time in minimal_times(domain, drawn)) for time in drawn)
    assert antichain.domain == domain

    shuffled = Antichain(domain, data.draw(st.permutations(drawn)))
    assert shuffled == antichain
    assert hash(shuffled) == hash(antichain)
    assert Antichain.from_minimal(domain, minimal_times(domain, drawn)) == antichain


@every_domain
@law_settings(25)
@given(data=st.data())
def test_equality_is_equality_of_sets(domain: TimeDomain, data: st.DataObject) -> None:
    """Two antichains are equal exactly when they have the same elements, however they were made."""
    drawn, others = (data.draw(st.lists(times(domain), max_size=3)) for _ in range(2))
    same = minimal_times(domain, drawn) == minimal_times(domain, others)
    assert (Antichain(domain, drawn) == Antichain(domain, others)) == same


@every_domain
@law_settings(25)
@given(data=st.data())
def test_comparisons_agree_with_brute_force(domain: TimeDomain, data: st.DataObject) -> None:
    """An antichain answers for a time, or for another antichain, as all the times it was made of do."""
    drawn, others = (data.draw(st.lists(times(domain), max_size=6)) for _ in range(2))
    antichain = Antichain(domain, drawn)
    for time in (*drawn, *others):
        assert antichain.less_equal(time) == any(domain.less_equal(a, time) for a in drawn)
        assert antichain.less_than(time) == any(a != time and domain.less_equal(a, time) for a in drawn)
    assert set(antichain) == minimal_times(domain, drawn)
    dominates = all(any(domain.less_equal(a, b) for a in drawn) for b in others)
    assert antichain.dominates(Antichain(domain, others)) == dominates
