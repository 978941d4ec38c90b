"""The broadcast protocol: what is recorded arrives, whole, everywhere."""

from collections import Counter, deque
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.oracles import minimal_times
from tests.laws.strategies import law_settings
from tidewheel.progress import (
    ROOT,
    Broadcast,
    CompiledGraph,
    GraphShape,
    OperatorShape,
    PathSummary,
    ProgressBatch,
    Target,
    Time,
    Tracker,
)
from tidewheel.progress.graph import Source

GRAPH = CompiledGraph(
    GraphShape(
        (
            OperatorShape("input", (), (ROOT,), {}),
            OperatorShape("map", (ROOT,), (ROOT,), {(0, 0): (PathSummary.identity(ROOT),)}),
        ),
        ((Source(0, 0), Target(1, 0)),),
    )
)

RECORDS = st.lists(
    st.tuples(st.tuples(st.sampled_from(range(len(GRAPH.locations))), st.integers(0, 3)), st.integers(-2, 2)),
    max_size=5,
)
"""The changes of one step: any at all, since the protocol does not judge them."""


def net(changes: Iterable[tuple[tuple[int, Time], int]]) -> Counter[tuple[int, Time]]:
    """Sum changes up."""
    counts: Counter[tuple[int, Time]] = Counter()
    for pointstamp, difference in changes:
        counts[pointstamp] += difference
    return counts


def frontier_of_output(counts: Counter[tuple[int, Time]]) -> set[Time]:
    """Return the frontier at the last output, which every location reaches unchanged."""
    return minimal_times(ROOT.domain, (time for (_, time), count in counts.items() if count > 0))


@law_settings(100)
@given(steps=st.lists(st.lists(RECORDS, max_size=3), max_size=6))
def test_a_batch_is_the_net_of_one_step(steps: list[list[ProgressBatch]]) -> None:
    """Committing returns the sum of what the step recorded and applies it here at once; nothing is sent if it is 0."""
    output = Source(1, 0)
    tracker = Tracker(GRAPH, 2, [output])
    broadcast = Broadcast(tracker, 0, 2, hold_back=False)
    total = net(tracker.counts())
    sent: list[ProgressBatch] = []
    for step in steps:
        before = tracker.frontier(output)
        for record in step:
            broadcast.record(record[1:])
            for (location, time), difference in record[:1]:
                broadcast.record_one(location, time, difference)
            assert dict(tracker.counts()) == {stamp: count for stamp, count in total.items() if count}
        committed = broadcast.commit()
        batch, moved = committed.batches.get(1, []), committed.moved
        expected = net([change for record in step for change in record])
        assert len(batch) == len(dict(batch))
        assert dict(batch) == {pointstamp: count for pointstamp, count in expected.items() if count}
        total.update(expected)
        assert dict(tracker.counts()) == {stamp: count for stamp, count in total.items() if count}
        assert set(tracker.frontier(output)) == frontier_of_output(total)
        assert moved == ({GRAPH.index[output]} if tracker.frontier(output) != before else set())
        sent += [batch] if batch else []
    assert (broadcast.batches_sent, broadcast.changes_sent) == (len(sent), sum(map(len, sent)))


@law_settings(60)
@given(steps=st.lists(st.tuples(st.integers(0, 2), RECORDS), max_size=12), data=st.data())
def test_views_agree_when_everything_has_arrived(steps: list[tuple[int, ProgressBatch]], data: st.DataObject) -> None:
    """A view is the sum of the batches it has received; with all of them, in any interleaving, views are the same."""
    output = Source(1, 0)
    trackers = [Tracker(GRAPH, 3, [output]) for _ in range(3)]
    ends = [Broadcast(tracker, worker, 3, hold_back=False) for worker, tracker in enumerate(trackers)]
    links = {(sender, receiver): deque[ProgressBatch]() for sender in range(3) for receiver in range(3)}
    totals = [net(tracker.counts()) for tracker in trackers]
    for worker, record in steps:
        ends[worker].record(record)
        totals[worker].update(net(record))
        for receiver, batch in ends[worker].commit().batches.items():
            links[worker, receiver].append(batch)
    while waiting := sorted(link for link, batches in links.items() if batches):
        sender, receiver = data.draw(st.sampled_from(waiting))
        before = trackers[receiver].frontier(output)
        batch = links[sender, receiver].popleft()
        moved = ends[receiver].receive(sender, batch)
        totals[receiver].update(net(batch))
        assert set(trackers[receiver].frontier(output)) == frontier_of_output(totals[receiver])
        assert moved == ({GRAPH.index[output]} if trackers[receiver].frontier(output) != before else set())
    first, *others = (dict(tracker.counts()) for tracker in trackers)
    assert all(other == first for other in others)
    assert all(end.batches_sent <= 2 * len(steps) for end in ends)
