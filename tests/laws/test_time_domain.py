"""The laws in the docstring of `TimeDomain`, and those that compiling a graph relies on besides."""

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.domains import DOMAINS, time_pool
from tests.laws.strategies import law_settings, summaries, times
from tidewheel.progress import Summary, Time, TimeDomain

every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS.keys())


def passes_earlier(domain: TimeDomain, a: Time | None, b: Time | None) -> bool:
    """Compare two results, where not to pass at all is later than every time."""
    return b is None or (a is not None and domain.less_equal(a, b))


@every_domain
@law_settings(25)
@given(data=st.data())
def test_less_equal_is_a_partial_order_with_a_minimum(domain: TimeDomain, data: st.DataObject) -> None:
    """``less_equal`` is reflexive, antisymmetric and transitive; the minimum is least; ``less_than`` is strict."""
    drawn = data.draw(st.lists(times(domain), min_size=3, max_size=6))
    for a in drawn:
        assert domain.less_equal(a, a)
        assert domain.less_equal(domain.minimum(), a)
        for b in drawn:
            assert a == b or not (domain.less_equal(a, b) and domain.less_equal(b, a))
            assert domain.less_than(a, b) == (a != b and domain.less_equal(a, b))
            for c in drawn:
                assert domain.less_equal(a, c) or not (domain.less_equal(a, b) and domain.less_equal(b, c))


@every_domain
@law_settings(50)
@given(data=st.data())
def test_the_comparison_is_less_equal(domain: TimeDomain, data: st.DataObject) -> None:
    """However it is found; a subclass that compares in its own way is not passed over."""
    compare = domain.comparison()
    a, b = (data.draw(times(domain)) for _ in range(2))
    assert compare(a, b) == domain.less_equal(a, b)

    class Reversed(type(domain)):  # type: ignore[misc]
        __slots__ = ()

        def less_equal(self, a: Time, b: Time) -> bool:
            return bool(domain.less_equal(b, a))

    own = object.__new__(Reversed)
    assert own.comparison()(a, b) == domain.less_equal(b, a)


@every_domain
@law_settings(25)
@given(data=st.data())
def test_results_in_never_goes_back_and_is_monotone(domain: TimeDomain, data: st.DataObject) -> None:
    """A path takes a time to one at or after it, and takes later times no earlier; where one stops, later ones stop."""
    summary = data.draw(summaries(domain))
    drawn = data.draw(st.lists(times(domain), min_size=2, max_size=6))
    for a in drawn:
        result = domain.results_in(summary, a)
        assert result is None or (domain.contains(result) and domain.less_equal(a, result))
        for b in drawn:
            if domain.less_equal(a, b):
                assert passes_earlier(domain, result, domain.results_in(summary, b))


@every_domain
@law_settings(40)
@given(data=st.data())
def test_followed_by_composes_results_in(domain: TimeDomain, data: st.DataObject) -> None:
    """Two paths in a row do what one does after the other, in whatever order they are put together."""
    a, b, c = (data.draw(summaries(domain)) for _ in range(3))
    time = data.draw(times(domain))

    def chain(first: Summary | None, then: Summary | None) -> Summary | None:
        return None if first is None or then is None else domain.followed_by(first, then)

    def move(summary: Summary | None, at: Time | None) -> Time | None:
        return None if summary is None or at is None else domain.results_in(summary, at)

    assert move(chain(a, b), time) == move(b, move(a, time))
    passes = move(b, move(a, domain.minimum())) is not None
    assert (chain(a, b) is not None) == passes  # where the minimum does not pass, nothing does
    assert chain(chain(a, b), c) == chain(a, chain(b, c))
    assert chain(domain.identity(), a) == a == chain(a, domain.identity())
    assert domain.results_in(domain.identity(), time) == time


@every_domain
@law_settings(40)
@given(data=st.data())
def test_summary_less_equal_agrees_with_results_in(domain: TimeDomain, data: st.DataObject) -> None:
    """One summary is below another only if it never takes a time further; the order is reflexive and transitive."""
    drawn = data.draw(st.lists(summaries(domain), min_size=3, max_size=5))
    for a in drawn:
        assert domain.summary_less_equal(a, a)
        for b in drawn:
            if domain.summary_less_equal(a, b):
                assert all(
                    passes_earlier(domain, domain.results_in(a, time), domain.results_in(b, time))
                    for time in time_pool(domain)
                )
                assert all(domain.summary_less_equal(a, c) for c in drawn if domain.summary_less_equal(b, c))


@every_domain
@law_settings(40)
@given(data=st.data())
def test_a_longer_path_is_never_below_a_part_of_it(domain: TimeDomain, data: st.DataObject) -> None:
    """A path is below each that it is a part of: so going round a loop again is never kept, and compilation ends."""
    a, b = data.draw(summaries(domain)), data.draw(summaries(domain))
    longer = domain.followed_by(a, b)
    if longer is not None:
        assert domain.summary_less_equal(a, longer)
        assert domain.summary_less_equal(b, longer)


@every_domain
@law_settings(40)
@given(data=st.data())
def test_a_summary_not_below_identity_strictly_advances(domain: TimeDomain, data: st.DataObject) -> None:
    """A summary leaves every time where it is, or advances every time: so a cycle is idle for all times or for none."""
    summary = data.draw(summaries(domain))
    results = [(time, domain.results_in(summary, time)) for time in time_pool(domain)]
    if domain.summary_less_equal(summary, domain.identity()):
        assert all(result == time for time, result in results)
    else:
        assert all(result is None or domain.less_than(time, result) for time, result in results)


@every_domain
@law_settings(50)
@given(data=st.data())
def test_in_order_is_a_permutation_that_agrees_with_the_order(domain: TimeDomain, data: st.DataObject) -> None:
    """All times are there once, and none comes before one that is less; also where a subclass compares otherwise."""
    drawn = data.draw(st.lists(times(domain), unique=True, max_size=8))

    class Reversed(type(domain)):  # type: ignore[misc]
        __slots__ = ()

        def less_equal(self, a: Time, b: Time) -> bool:
            return bool(domain.less_equal(b, a))

    for ordering in (domain, object.__new__(Reversed)):
        ordered = ordering.in_order(iter(drawn))
        assert len(ordered) == len(drawn)
        assert set(ordered) == set(drawn)
        assert not any(ordering.less_than(later, earlier) for earlier, later in combinations(ordered, 2))


@every_domain
@law_settings(50)
@given(data=st.data())
def test_in_order_puts_pairs_in_a_strict_partial_order(domain: TimeDomain, data: st.DataObject) -> None:
    """Where it leaves two as they were given it does so both ways; where it does not, three agree with one another."""
    drawn = data.draw(st.lists(times(domain), unique=True, max_size=5))

    def before(a: Time, b: Time) -> bool:
        return bool(a != b and domain.in_order([b, a])[0] == a)

    for a, b in permutations(drawn, 2):
        assert before(a, b) or not domain.less_than(a, b)
        assert not (before(a, b) and before(b, a))
    for a, b, c in permutations(drawn, 3):
        assert before(a, c) or not (before(a, b) and before(b, c))


@every_domain
def test_contains_tells_times_from_other_values(domain: TimeDomain) -> None:
    """``contains`` accepts every time of the domain and refuses values that are none."""
    assert all(domain.contains(time) for time in time_pool(domain))
    assert domain.contains(domain.minimum())
    others: tuple[object, ...] = (None, "0", -1, 1.5, True, [], (None,), (0, -1), (0, 0, 0, 0), ((), ()))
    for other in others:
        assert not domain.contains(other)
