from tidewheel.progress import (
    CompiledGraph,
    GraphShape,
    Nesting,
    OperatorShape,
    PathSummary,
    Source,
    Target,
    Tracker,
    UnitDomain,
)


def test_one_time_and_nothing_moves_it() -> None:
    """The unit domain has the empty tuple, at or before itself, and no other value."""
    unit = UnitDomain()
    assert unit.minimum() == () == unit.results_in(unit.identity(), ())
    assert unit.followed_by((), ()) == ()
    assert unit.less_equal((), ())
    assert unit.summary_less_equal((), ())
    assert not unit.less_than((), ())
    assert unit.contains(())
    others: tuple[object, ...] = (None, 0, (0,), False, [])
    assert not any(map(unit.contains, others))


def test_a_dataflow_without_epochs_only_ends() -> None:
    """In a dataflow of one time the frontier stays there until everything is gone."""
    nesting = Nesting((UnitDomain(),))
    graph = GraphShape(
        (
            OperatorShape("input", (), (nesting,), {}),
            OperatorShape("sink", (nesting,), (), {}),
            OperatorShape("map", (nesting,), (nesting,), {(0, 0): (PathSummary.identity(nesting),)}),
        ),
        ((Source(0, 0), Target(2, 0)), (Source(2, 0), Target(1, 0))),
    )
    compiled = CompiledGraph(graph)
    tracker = Tracker(compiled, 1, [Target(1, 0)])
    tracker.update([((compiled.index[Source(2, 0)], ()), -1)])
    assert list(tracker.frontier(Target(1, 0))) == [()]
    tracker.update([((compiled.index[Source(0, 0)], ()), -1)])
    assert list(tracker.frontier(Target(1, 0))) == []
    assert tracker.is_complete
