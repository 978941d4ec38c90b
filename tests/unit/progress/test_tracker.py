import pytest

from tests.laws.oracles import is_kept
from tidewheel.progress import (
    ROOT,
    CompiledGraph,
    GraphShape,
    IntegerDomain,
    Location,
    OperatorShape,
    PathSummary,
    Pointstamp,
    Target,
    Time,
    Tracker,
)
from tidewheel.progress.graph import Source

LOOP = ROOT.inside(IntegerDomain())
SAME = (PathSummary.identity(ROOT),)

PIPE = CompiledGraph(
    GraphShape(
        (
            OperatorShape("input", (), (ROOT,), {}),
            OperatorShape("map", (ROOT,), (ROOT,), {(0, 0): SAME}),
            OperatorShape("probe", (ROOT,), (), {}),
        ),
        ((Source(0, 0), Target(1, 0)), (Source(1, 0), Target(2, 0))),
    )
)
"""input -> map -> probe."""

INPUT, MAP_IN, MAP, PROBE = PIPE.locations


def changes(*changed: tuple[Location, Time, int]) -> list[tuple[tuple[int, Time], int]]:
    """Write a batch with locations instead of their numbers."""
    return [((PIPE.index[location], time), difference) for location, time, difference in changed]


def test_every_worker_must_drop_its_initial_token() -> None:
    """The frontier stays at the minimum until all workers have reported; until then it says nothing moved."""
    tracker = Tracker(PIPE, 2, [PROBE])
    assert dict(tracker.counts()) == {Pointstamp(0, 0): 2, Pointstamp(2, 0): 2}
    assert tracker.update(changes((MAP, 0, -2))) == set()
    assert tracker.update(changes((INPUT, 0, -1), (INPUT, 4, 1))) == set()
    assert list(tracker.frontier(PROBE)) == [0]
    assert tracker.update(changes((INPUT, 0, -1), (INPUT, 7, 1))) == {PIPE.index[PROBE]}
    assert list(tracker.frontier(PROBE)) == [4]
    assert not tracker.is_complete


def test_a_consumption_may_be_heard_of_before_the_message() -> None:
    """A count below zero for a while lets nothing pass: the token behind the message still holds the frontier."""
    tracker = Tracker(PIPE, 1, [PROBE, MAP_IN])
    tracker.update(changes((MAP, 0, -1)))
    assert tracker.update(changes((MAP_IN, 0, -1))) == set()
    assert (Pointstamp(PIPE.index[MAP_IN], 0), -1) in list(tracker.counts())
    assert list(tracker.frontier(PROBE)) == [0]
    assert list(tracker.frontier(MAP_IN)) == [0]
    tracker.update(changes((INPUT, 0, -1), (MAP_IN, 0, 1)))
    assert tracker.is_complete
    assert len(tracker.frontier(PROBE)) == 0


def test_a_negative_count_never_hides_a_positive_one_elsewhere() -> None:
    """Both arrive at the probe at the same time; summed up there they would cancel out, and the frontier would pass."""
    tracker = Tracker(PIPE, 1, [PROBE])
    tracker.update(changes((INPUT, 0, -1), (INPUT, 3, 1), (MAP, 0, -1)))
    assert tracker.update(changes((MAP_IN, 3, -1))) == set()
    assert list(tracker.frontier(PROBE)) == [3]


def test_only_what_leads_there_holds_a_frontier_back() -> None:
    """A pointstamp behind a location does not hold it, one at the location itself does."""
    tracker = Tracker(PIPE, 1, [MAP_IN, PROBE])
    tracker.update(changes((INPUT, 0, -1)))
    assert len(tracker.frontier(MAP_IN)) == 0
    assert list(tracker.frontier(PROBE)) == [0]
    assert tracker.update(changes((MAP, 0, -1), (PROBE, 5, 1))) == {PIPE.index[PROBE]}
    assert list(tracker.frontier(PROBE)) == [5]


def test_frontiers_in_a_loop_count_rounds() -> None:
    """At the head of a loop the frontier is the earliest round that can come, over all ways round."""
    same = (PathSummary.identity(LOOP),)
    compiled = CompiledGraph(
        GraphShape(
            (
                OperatorShape("enter", (ROOT,), (LOOP,), {(0, 0): (PathSummary.enter(LOOP),)}),
                OperatorShape("body", (LOOP, LOOP), (LOOP,), {(0, 0): same, (1, 0): same}),
                OperatorShape("feedback", (LOOP,), (LOOP,), {(0, 0): (PathSummary.advance(LOOP, 1),)}),
            ),
            ((Source(0, 0), Target(1, 0)), (Source(1, 0), Target(2, 0)), (Source(2, 0), Target(1, 1))),
        )
    )
    back = Target(1, 1)
    tracker = Tracker(compiled, 1, [back])
    tracker.update(((number, (0, 0)), -1) for number, at in enumerate(compiled.locations) if isinstance(at, Source))
    assert tracker.is_complete
    enter = compiled.index[Target(0, 0)]
    tracker.update([((enter, 4), 1)])
    assert list(tracker.frontier(back)) == [(4, 1)]
    tracker.update([((enter, 4), -1), ((compiled.index[Target(1, 0)], (4, 0)), 1), ((enter, 6), 1)])
    assert list(tracker.frontier(back)) == [(4, 1)]
    tracker.update([((compiled.index[Target(1, 0)], (4, 0)), -1), ((compiled.index[Target(2, 0)], (4, 5)), 1)])
    assert set(tracker.frontier(back)) == {(4, 6), (6, 1)}


def test_a_location_nobody_asked_about_has_no_frontier() -> None:
    """Only frontiers that were asked for are kept; asking for one twice is asking once."""
    tracker = Tracker(PIPE, 1, [PROBE, PROBE])
    assert is_kept(tracker, PROBE)
    assert not is_kept(tracker, MAP_IN)
    with pytest.raises(KeyError):
        tracker.frontier(MAP_IN)
    assert tracker.update(changes((INPUT, 0, -1), (MAP, 0, -1))) == {PIPE.index[PROBE]}


def test_a_view_without_positive_counts_is_complete() -> None:
    """What is still to be heard of changes nothing: a message that was consumed already can be no news."""
    tracker = Tracker(PIPE, 1, [PROBE])
    tracker.update(changes((INPUT, 0, -1), (MAP_IN, 0, -1)))
    seen = [tracker.is_complete]
    tracker.update(changes((MAP, 0, -1)))
    assert [*seen, tracker.is_complete] == [False, True]
    assert len(tracker.frontier(PROBE)) == 0
    assert dict(tracker.counts()) == {Pointstamp(PIPE.index[MAP_IN], 0): -1}


def test_an_empty_batch_moves_nothing() -> None:
    """Nothing in, nothing out; and a batch that undoes itself is the same."""
    tracker = Tracker(PIPE, 1, PIPE.locations)
    assert tracker.update([]) == set()
    assert tracker.update(changes((INPUT, 0, -1), (INPUT, 0, 1))) == set()
    assert tracker.update(iter(changes((INPUT, 1, 1)))) == set()


def test_what_another_worker_has_to_receive_holds_back_what_comes_behind_it() -> None:
    """It holds back the rounds after its own, on all workers, and not the round itself where messages are apart."""
    shapes = (
        OperatorShape("input", (), (LOOP,), {}),
        OperatorShape("reduce", (LOOP, LOOP), (LOOP,), {(port, 0): (PathSummary.identity(LOOP),) for port in (0, 1)}),
        OperatorShape("feedback", (LOOP,), (LOOP,), {(0, 0): (PathSummary.advance(LOOP, 1),)}),
    )
    edges = ((Source(0, 0), Target(1, 0)), (Source(1, 0), Target(2, 0)), (Source(2, 0), Target(1, 1)))
    compiled = CompiledGraph(GraphShape(shapes, edges, frozenset({Target(1, 1)}), workers=2))
    frontiers = []
    for worker in (0, 1):
        port = Target(1, 1, worker)
        tracker = Tracker(compiled, 2, [port, Source(1, 0)])
        tracker.update([((compiled.index[Source(operator, 0)], (0, 0)), -2) for operator in range(3)])
        assert list(tracker.frontier(port)) == []
        tracker.update([((compiled.index[Target(1, 1, 1)], (0, 4)), 1)])
        frontiers.append([list(tracker.frontier(port)), list(tracker.frontier(Source(1, 0)))])
    assert frontiers == [[[(0, 5)], [(0, 4)]], [[(0, 4)], [(0, 4)]]]
