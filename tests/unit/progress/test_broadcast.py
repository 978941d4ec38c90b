from tidewheel.progress import ROOT, Broadcast, CompiledGraph, GraphShape, OperatorShape, Source, Tracker

INPUT = Source(0, 0)
GRAPH = CompiledGraph(GraphShape((OperatorShape("input", (), (ROOT,), {}),), ()))


def test_a_step_is_one_batch_for_all() -> None:
    """What a step recorded is applied at home when it is committed, and is what the peers get."""
    here, there = (Broadcast(Tracker(GRAPH, 2, [INPUT])) for _ in range(2))
    here.record([((0, 0), -1), ((0, 3), 1)])
    here.record([((0, 3), -1), ((0, 5), 1)])
    batch, moved = here.commit()
    assert sorted(batch) == [((0, 0), -1), ((0, 5), 1)]
    assert moved == set()
    assert there.receive(batch) == set()
    assert there.receive([((0, 0), -1)]) == {0}
    assert here.receive([((0, 0), -1)]) == {0}


def test_nothing_is_applied_before_the_step_ends() -> None:
    """A batch is indivisible: a half-formed one is seen by nobody, not even at home."""
    tracker = Tracker(GRAPH, 1, [INPUT])
    broadcast = Broadcast(tracker)
    broadcast.record_one(0, 0, -1)
    assert list(tracker.frontier(INPUT)) == [0]
    broadcast.record([((0, 2), 1)])
    assert broadcast.commit() == ([((0, 0), -1), ((0, 2), 1)], {0})
    assert list(tracker.frontier(INPUT)) == [2]


def test_a_step_without_effect_sends_nothing() -> None:
    """An empty batch, or one that cancels out, is not sent and not counted."""
    broadcast = Broadcast(Tracker(GRAPH, 1, [INPUT]))
    assert broadcast.commit() == ([], set())
    broadcast.record([((0, 2), 1), ((0, 2), -1)])
    assert broadcast.commit() == ([], set())
    assert (broadcast.batches_sent, broadcast.changes_sent) == (0, 0)
    broadcast.record([((0, 2), 1), ((0, 3), 1)])
    broadcast.commit()
    assert (broadcast.batches_sent, broadcast.changes_sent) == (1, 2)
    assert broadcast.commit() == ([], set())
