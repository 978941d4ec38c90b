from typing import Any

import pytest

from tidewheel.progress import (
    ROOT,
    Accumulated,
    Broadcast,
    ChangeBatch,
    CompiledGraph,
    GraphShape,
    HeldBatch,
    NetBatch,
    OperatorShape,
    PathSummary,
    Target,
    Tracker,
)
from tidewheel.progress.graph import Source


def test_what_cancels_out_is_gone() -> None:
    """Only net changes remain, in the order in which their keys came in."""
    batch = ChangeBatch([("a", 1), ("b", 2), ("c", 0)])
    batch.update("a", -1)
    assert list(batch) == [("b", 2)]
    assert len(batch) == 1
    batch.extend([("b", -3), ("a", 5)])
    assert list(batch) == [("b", -1), ("a", 5)]
    assert repr(batch) == "ChangeBatch([('b', -1), ('a', 5)])"


def test_an_empty_batch_is_false() -> None:
    """Whoever has nothing to tell can see it."""
    assert not ChangeBatch[str]()
    assert ChangeBatch([("a", 1)])


def test_drain_starts_anew() -> None:
    """What was drained is the caller's: later changes do not touch it."""
    batch = ChangeBatch([("a", 1)])
    drained = batch.drain()
    batch.update("a", 1)
    assert drained == [("a", 1)]
    assert batch.drain() == [("a", 1)]
    assert batch.drain() == []


SAME = (PathSummary.identity(ROOT),)
PIPE = CompiledGraph(
    GraphShape(
        (
            OperatorShape("input", (), (ROOT,), {}),
            OperatorShape("map", (ROOT,), (ROOT,), {(0, 0): SAME}),
            OperatorShape("sink", (ROOT,), (), {}),
        ),
        ((Source(0, 0), Target(1, 0)), (Source(1, 0), Target(2, 0))),
    )
)
INPUT, MAP_IN, MAP, SINK = Source(0, 0), Target(1, 0), Source(1, 0), Target(2, 0)


def changes(*changed: tuple[Any, Any, int]) -> list[tuple[tuple[int, Any], int]]:
    """Write a batch with locations instead of their numbers."""
    return [((PIPE.index[location], time), difference) for location, time, difference in changed]


def view(*live: tuple[Any, Any, int]) -> Tracker:
    """Return a view of these pointstamps in which the input's and the sink's frontier are kept."""
    tracker = Tracker(PIPE, 0, [INPUT, SINK])
    tracker.update(changes(*live))
    return tracker


def due(held: HeldBatch) -> bool:
    """Ask anew each time."""
    return held.is_due


def test_what_only_adds_waits() -> None:
    """New pointstamps come from tokens that everybody counts, so frontiers allow for them already."""
    held = HeldBatch(view(), hold_back=True)
    held.add(changes((MAP_IN, 3, 2), (MAP, 5, 1)))
    assert not due(held)
    assert sorted(held) == sorted(changes((MAP_IN, 3, 2), (MAP, 5, 1)))


def test_what_is_covered_waits_until_the_cover_moves() -> None:
    """A message that goes while the input is at an earlier time moves nothing; when the input moves on, it might."""
    tracker = view((INPUT, 3, 2), (MAP_IN, 3, 1))
    held = HeldBatch(tracker, hold_back=True)
    held.add(changes((MAP_IN, 3, -1)))
    tracker.update(changes((MAP_IN, 3, -1)))
    assert not due(held)
    held.frontiers_moved({PIPE.index[SINK]})
    assert not due(held)
    held.frontiers_moved(tracker.update(changes((INPUT, 3, -2), (INPUT, 4, 2))))
    assert due(held)
    assert held.drain() == changes((MAP_IN, 3, -1))
    assert not due(held)
    assert list(held) == []


def test_what_is_covered_by_itself_alone_is_due() -> None:
    """An input's own token is what its frontier shows; that does not cover its going."""
    held = HeldBatch(view((INPUT, 3, 2)), hold_back=True)
    held.add(changes((INPUT, 3, -1), (INPUT, 4, 1)))
    assert due(held)


def test_what_is_due_takes_along_what_was_held() -> None:
    """A batch is indivisible, and the steps before it belong to it; what cancels out is not told at all."""
    tracker = view((INPUT, 3, 1))
    held = HeldBatch(tracker, hold_back=True)
    held.add(changes((MAP_IN, 3, 2)))
    held.add(changes((MAP_IN, 3, -2), (MAP, 3, 1), (MAP, 7, 1)))
    assert not due(held)
    held.add(changes((INPUT, 3, -1)))
    assert due(held)
    assert sorted(held.drain()) == sorted(changes((MAP, 3, 1), (MAP, 7, 1), (INPUT, 3, -1)))


def test_what_cancels_out_when_it_is_due_leaves_nothing_due() -> None:
    """The input moves on, so what went is due; then it is put back, and a later step that only adds waits."""
    tracker = view((INPUT, 3, 2), (MAP_IN, 3, 1))
    held = HeldBatch(tracker, hold_back=True)
    held.add(changes((MAP_IN, 3, -1)))
    held.frontiers_moved(tracker.update(changes((INPUT, 3, -2), (INPUT, 4, 2))))
    assert due(held)
    held.add(changes((MAP_IN, 3, 1)))
    assert not due(held)
    held.add(changes((MAP_IN, 5, 1)))
    assert not due(held)


def test_without_hold_back_each_step_is_due() -> None:
    """But for one that has no effect."""
    held = HeldBatch(view(), hold_back=False)
    held.add(changes((MAP_IN, 3, 1)))
    assert due(held)
    held.add(changes((MAP_IN, 3, -1)))
    assert not due(held)
    assert list(held) == []


def test_a_net_batch_speaks_when_the_last_goes() -> None:
    """Of three workers that hold a time, the first two that drop it change nothing in any view."""
    held = NetBatch(view((INPUT, 3, 3)), hold_back=True)
    for _ in range(2):
        held.add(changes((INPUT, 3, -1), (INPUT, 4, 1)))
        assert not due(held)
    held.add(changes((INPUT, 3, -1), (INPUT, 4, 1)))
    assert due(held)
    assert sorted(held.drain()) == sorted(changes((INPUT, 3, -3), (INPUT, 4, 3)))


def test_a_net_batch_speaks_when_more_go_than_are_counted() -> None:
    """One of two messages was announced, both were consumed: the announced one holds frontiers back in the views."""
    held = NetBatch(view((MAP, 1, 1), (MAP_IN, 3, 1)), hold_back=True)
    held.add(changes((MAP_IN, 3, -2)))
    assert due(held)


def test_a_net_batch_waits_with_what_no_view_counts() -> None:
    """A consumption that is heard of before its message takes nothing away."""
    held = NetBatch(view((MAP, 1, 1)), hold_back=True)
    held.add(changes((MAP_IN, 3, -1)))
    assert not due(held)
    held.add(changes((MAP_IN, 3, 1)))
    assert list(held) == []


def test_the_accumulator_tells_all_and_the_others_tell_it() -> None:
    """A report goes to worker 0 only; what comes of it to all others, and counts everywhere when it arrives."""
    trackers = [Tracker(PIPE, 3, [INPUT, SINK]) for _ in range(3)]
    ends = [Accumulated(tracker, worker, 3) for worker, tracker in enumerate(trackers)]
    for worker in (1, 2):
        ends[worker].record(changes((INPUT, 0, -1), (INPUT, 5, 1)))
        committed = ends[worker].commit()
        assert (set(committed.batches), committed.moved) == ({0}, set())
        assert list(trackers[worker].frontier(INPUT)) == [0]
        assert ends[0].receive(worker, committed.batches[0]) == set()
        assert not ends[0].is_due
    ends[0].record(changes((INPUT, 0, -1), (INPUT, 7, 1), (MAP, 0, -3)))
    ends[1].record(changes((MAP, 0, -1), (MAP, 0, 1)))
    committed = ends[0].commit()
    assert set(committed.batches) == {1, 2}
    assert committed.moved == {PIPE.index[INPUT], PIPE.index[SINK]}
    for worker in (1, 2):
        assert ends[worker].receive(0, committed.batches[worker]) == committed.moved
    assert [list(tracker.frontier(SINK)) for tracker in trackers] == [[5]] * 3
    assert [(end.batches_sent, end.changes_sent) for end in ends] == [(2, 8), (1, 2), (1, 2)]
    assert [end.unsent() for end in ends] == [[], [], []]


def test_what_a_worker_knows_has_its_own_changes_in_it() -> None:
    """Though its view counts them only when they come back; a step that has not ended is no change yet."""
    tracker = Tracker(PIPE, 2, [INPUT])
    end = Accumulated(tracker, 1, 2)
    before: dict[Any, int] = dict(tracker.counts())
    end.record(changes((MAP_IN, 3, 1)))
    assert end.knowledge().counts == before
    assert end.commit().batches == {}
    assert dict(tracker.counts()) == before
    assert end.knowledge().counts == {**before, (PIPE.index[MAP_IN], 3): 1}
    assert end.unsent() == changes((MAP_IN, 3, 1))


def test_an_accumulator_without_peers_applies_what_it_has() -> None:
    """A protocol among one worker still moves its frontiers."""
    tracker = Tracker(PIPE, 1, [INPUT, SINK])
    end = Accumulated(tracker, 0, 1)
    end.record(changes((INPUT, 0, -1), (MAP, 0, -1), (INPUT, 2, 1)))
    committed = end.commit()
    assert committed.batches == {}
    assert list(tracker.frontier(SINK)) == [2]


def test_a_broadcast_held_back_counts_at_home() -> None:
    """What a worker has done is in its own view at once, told or not."""
    tracker = Tracker(PIPE, 2, [INPUT, SINK])
    end = Broadcast(tracker, 0, 2)
    end.record(changes((MAP_IN, 0, 1)))
    assert end.commit().batches == {}
    assert (tracker.count(PIPE.index[MAP_IN], 0), end.unsent()) == (1, changes((MAP_IN, 0, 1)))
    assert end.knowledge().counts == dict(tracker.counts())


@pytest.mark.parametrize("order", [range(4, 2004), range(2003, 3, -1)], ids=["oldest first", "latest first"])
def test_a_move_of_the_cover_costs_no_more_with_much_that_is_held(
    order: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages at two thousand later times are gone, held back; as the input moves, only the earliest is asked of."""
    tracker = view((INPUT, 0, 2), *((MAP_IN, time, 1) for time in order))
    held = HeldBatch(tracker, hold_back=True)
    for time in order:
        held.add(changes((MAP_IN, time, -1)))
    asked: list[tuple[int, Any]] = []
    covered_by = tracker.covered_by

    def count(location: int, time: Any) -> int | None:
        asked.append((location, time))
        return covered_by(location, time)

    monkeypatch.setattr(tracker, "covered_by", count)
    for now in range(4):
        held.frontiers_moved(tracker.update(changes((INPUT, now, -2), (INPUT, now + 1, 2))))
        assert not due(held)
    assert asked == [(PIPE.index[MAP_IN], 4)] * 4
    held.frontiers_moved(tracker.update(changes((INPUT, 4, -2), (INPUT, 5, 2))))
    assert due(held)
    assert len(held.drain()) == 2000


def test_what_was_put_back_is_not_due() -> None:
    """The earliest time that was taken away is there again: what matters now is the next one, which is covered."""
    tracker = view((INPUT, 0, 2), (MAP_IN, 3, 1), (MAP_IN, 7, 1))
    held = HeldBatch(tracker, hold_back=True)
    held.add(changes((MAP_IN, 3, -1)))
    held.add(changes((MAP_IN, 7, -1)))
    held.add(changes((MAP_IN, 3, 1)))
    held.frontiers_moved(tracker.update(changes((INPUT, 0, -2), (INPUT, 5, 2))))
    assert not due(held)
    held.frontiers_moved(tracker.update(changes((INPUT, 5, -2), (INPUT, 8, 2))))
    assert due(held)
