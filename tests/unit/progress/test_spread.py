from tidewheel.progress import ROOT, Broadcast, Committed, CompiledGraph, GraphShape, OperatorShape, Tracker
from tidewheel.progress.graph import Source

INPUT = Source(0, 0)
GRAPH = CompiledGraph(GraphShape((OperatorShape("input", (), (ROOT,), {}),), ()))


def test_a_step_is_one_batch_for_all() -> None:
    """What a step recorded is applied at home when it is committed, and is what the peers get."""
    here, there, third = (Broadcast(Tracker(GRAPH, 3, [INPUT]), worker, 3) for worker in range(3))
    here.record([((0, 0), -1), ((0, 3), 1)])
    here.record([((0, 3), -1), ((0, 5), 1)])
    committed = here.commit()
    assert committed.moved == set()
    assert set(committed.batches) == {1, 2}
    assert sorted(committed.batches[1]) == sorted(committed.batches[2]) == [((0, 0), -1), ((0, 5), 1)]
    assert there.receive(0, committed.batches[1]) == set()
    assert third.receive(0, committed.batches[2]) == set()
    assert there.receive(2, [((0, 0), -2)]) == {0}
    assert here.receive(2, [((0, 0), -2)]) == {0}


def test_nothing_is_applied_before_the_step_ends() -> None:
    """A batch is indivisible: a half-formed one is seen by nobody, not even at home."""
    tracker = Tracker(GRAPH, 1, [INPUT])
    broadcast = Broadcast(tracker)
    broadcast.record_one(0, 0, -1)
    assert list(tracker.frontier(INPUT)) == [0]
    broadcast.record([((0, 2), 1)])
    assert broadcast.commit().moved == {0}
    assert list(tracker.frontier(INPUT)) == [2]


def test_a_step_without_effect_sends_nothing() -> None:
    """An empty batch, or one that cancels out, is not sent and not counted."""
    broadcast = Broadcast(Tracker(GRAPH, 2, [INPUT]), 0, 2, hold_back=False)
    assert broadcast.commit() == Committed({}, set())
    broadcast.record([((0, 2), 1), ((0, 2), -1)])
    assert broadcast.commit() == Committed({}, set())
    assert (broadcast.batches_sent, broadcast.changes_sent) == (0, 0)
    broadcast.record([((0, 2), 1), ((0, 3), 1)])
    assert broadcast.commit().batches == {1: [((0, 2), 1), ((0, 3), 1)]}
    assert (broadcast.batches_sent, broadcast.changes_sent) == (1, 2)
    assert broadcast.commit() == Committed({}, set())


def test_one_worker_tells_nobody() -> None:
    """Without peers there is nothing to send and nothing to hold back."""
    broadcast = Broadcast(Tracker(GRAPH, 1, [INPUT]))
    broadcast.record([((0, 2), 1)])
    assert broadcast.commit() == Committed({}, set())
    assert broadcast.unsent() == []
    assert not broadcast.is_due
