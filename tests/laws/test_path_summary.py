"""Path summaries against times that walk one step at a time."""

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.domains import BITEMPORAL, FEW_INTEGERS, INTEGERS, UNIT, VECTOR_CLOCK, probing_times, time_pool
from tests.laws.oracles import arrivals_by
from tests.laws.strategies import journeys, law_settings, nesting_pairs, nestings, path_summaries
from tidewheel.progress import Nesting, PathSummary, Time

ENDLESS = (INTEGERS, BITEMPORAL, VECTOR_CLOCK, UNIT)
"""Domains whose greatest time, if any, no small summary reaches: what is said of these is exact."""

ANY = (INTEGERS, FEW_INTEGERS, UNIT, BITEMPORAL)


def sample_times(data: st.DataObject, nesting: Nesting) -> list[Time]:
    """Draw some times of a nesting."""
    pools = [st.sampled_from(time_pool(domain)) for domain in nesting.coordinate_domains]
    return data.draw(st.lists(st.tuples(*pools).map(Nesting.time), min_size=1, max_size=6))


def compose(start: Nesting, steps: list[PathSummary]) -> PathSummary | None:
    """Put the summaries of single steps together, from the left."""
    path: PathSummary | None = PathSummary.identity(start)
    for step in steps:
        path = path and path.followed_by(step)
    return path


def walk(steps: list[PathSummary], time: Time | None) -> Time | None:
    """Take a time through single steps."""
    for step in steps:
        time = None if time is None else step.results_in(time)
    return time


def passes_earlier(nesting: Nesting, a: Time | None, b: Time | None) -> bool:
    """Compare two arrivals, where never is later than every time."""
    return b is None or (a is not None and nesting.domain.less_equal(a, b))


@law_settings(100)
@given(data=st.data())
def test_single_steps_do_what_their_names_say(data: st.DataObject) -> None:
    """Entering appends the minimum, leaving drops the innermost coordinate, advancing moves it; nothing else moves."""
    nesting = data.draw(nestings(ANY))
    coordinate = data.draw(st.sampled_from(ANY))
    inner = nesting.inside(coordinate)
    innermost = nesting.coordinate_domains[-1]
    for time in sample_times(data, nesting):
        assert PathSummary.identity(nesting).results_in(time) == time
        assert PathSummary.enter(inner).results_in(time) == (time, coordinate.minimum())
        later = data.draw(st.sampled_from(time_pool(coordinate)))
        assert PathSummary.leave(inner).results_in((time, later)) == time
        summary = data.draw(st.sampled_from(time_pool(innermost)))
        *outer, last = nesting.coordinates(time)
        advanced = innermost.results_in(summary, last)
        expected = None if advanced is None else Nesting.time((*outer, advanced))
        assert PathSummary.advance(nesting, summary).results_in(time) == expected


@law_settings(150)
@given(data=st.data())
def test_followed_by_agrees_with_walking(data: st.DataObject) -> None:
    """A composed path takes a time where its steps, one after the other, take it."""
    start = data.draw(nestings(ENDLESS))
    steps = data.draw(journeys(start, ENDLESS, small=True))
    path = compose(start, steps)
    assert path is not None
    assert path.source == start
    assert path.target == (steps[-1].target if steps else start)
    for time in (*sample_times(data, start)[:2], *probing_times(start)):
        expected = walk(steps, time)
        if expected is not None:  # a drawn time may be near the greatest
            assert path.results_in(time) == expected
            assert path.target.domain.contains(expected)


@law_settings(200)
@given(data=st.data())
def test_followed_by_never_promises_too_much(data: st.DataObject) -> None:
    """Where domains have a greatest time, a composed path is no later than its steps, and exact for what passes them.

    It may let a time through that a step does not, if it forgets the coordinate that stopped there.
    """
    start = data.draw(nestings(ANY))
    steps = data.draw(journeys(start, ANY))
    path = compose(start, steps)
    for time in sample_times(data, start):
        expected = walk(steps, time)
        if expected is not None:
            assert path is not None
            assert path.results_in(time) == expected


@law_settings(150)
@given(data=st.data())
def test_followed_by_is_associative(data: st.DataObject) -> None:
    """Three paths in a row have one summary, in whatever order they are put together; identities change nothing."""
    start = data.draw(nestings(ENDLESS))
    paths = []
    nesting = start
    for _ in range(3):
        path = compose(nesting, data.draw(journeys(nesting, ENDLESS, small=True)))
        assert path is not None
        paths.append(path)
        nesting = path.target
    a, b, c = paths
    ab, bc = a.followed_by(b), b.followed_by(c)
    assert ab is not None
    assert bc is not None
    assert ab.followed_by(c) == a.followed_by(bc)
    assert a.followed_by(PathSummary.identity(a.target)) == a == PathSummary.identity(start).followed_by(a)


@law_settings(200)
@given(data=st.data())
def test_less_equal_promises_no_more_than_results_in(data: st.DataObject) -> None:
    """One path is below another only if every time arrives by it at or before when it does by the other.

    The order is reflexive and transitive.
    """
    source, target = data.draw(nesting_pairs(ANY, max_depth=2))
    p, q, r = (data.draw(path_summaries(source, target)) for _ in range(3))
    assert p.less_equal(p)
    assert p.less_equal(r) or not (p.less_equal(q) and q.less_equal(r))
    for time in sample_times(data, source):
        if p.less_equal(q):
            assert passes_earlier(target, p.results_in(time), q.results_in(time))
        if q.less_equal(p):
            assert passes_earlier(target, q.results_in(time), p.results_in(time))


@law_settings(300)
@given(data=st.data())
def test_less_equal_is_exact_far_from_greatest_times(data: st.DataObject) -> None:
    """Without greatest times, paths are ordered exactly when their arrivals are, whatever coordinates they keep.

    Minimal collections of summaries are minimal then.
    """
    endless = (INTEGERS, BITEMPORAL)
    source, target = data.draw(nesting_pairs(endless, max_depth=2))
    p, q = (data.draw(path_summaries(source, target, small=True)) for _ in range(2))
    probes = probing_times(source)
    expected = all(map(target.domain.less_equal, arrivals_by(p, probes), arrivals_by(q, probes)))
    assert p.less_equal(q) == expected


@law_settings(100)
@given(data=st.data())
def test_less_equal_is_kept_by_composition(data: st.DataObject) -> None:
    """What is below stays below when both paths go on, or come from further back, the same way."""
    source, target = data.draw(nesting_pairs(ENDLESS, max_depth=2))
    p, q = (data.draw(path_summaries(source, target, small=True)) for _ in range(2))
    after = compose(target, data.draw(journeys(target, ENDLESS, small=True)))
    before = data.draw(path_summaries(source, source, small=True))
    assert after is not None
    if p.less_equal(q):
        for p_longer, q_longer in (
            (p.followed_by(after), q.followed_by(after)),
            (before.followed_by(p), before.followed_by(q)),
        ):
            assert p_longer is not None
            assert q_longer is not None
            assert p_longer.less_equal(q_longer)


@law_settings(150)
@given(data=st.data())
def test_strictly_advances_agrees_with_going_round(data: st.DataObject) -> None:
    """A cycle strictly advances exactly if no time comes round unchanged by a second round."""
    nesting = data.draw(nestings(ANY))
    cycle = data.draw(path_summaries(nesting, nesting))
    times = (nesting.domain.minimum(), *sample_times(data, nesting))
    rounds = [(cycle.results_in(time), time) for time in times]
    unchanged = [once for once, _ in rounds if once is not None and cycle.results_in(once) == once]
    if cycle.strictly_advances():
        assert not unchanged
    else:
        assert unchanged
    assert cycle.is_identity == (cycle == PathSummary.identity(nesting))
