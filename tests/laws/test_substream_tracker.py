"""Ends of substreams, in random dataflows with cycles, against who sees everything."""

from collections import Counter
from collections.abc import Callable
from itertools import chain, combinations
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.graphs import describe_graph, random_graph
from tests.laws.oracles import sources
from tests.laws.strategies import SEEDS, law_settings
from tests.laws.substream_workers import SubstreamChange, SubstreamEnd, SubstreamPoint, SubstreamWorkers, take
from tidewheel.progress import ROOT, CompiledGraph, GraphError, GraphShape, OperatorShape, PathSummary, Target
from tidewheel.progress.graph import Source
from tidewheel.progress.substream_tracker import Key, SubstreamTracker

KEYS = 4


class Run:
    """One random run, and what to print when it breaks a promise."""

    def __init__(
        self, seed: int, workers: int, *, is_owned: bool, senders: Callable[[int], int] = lambda senders: senders
    ) -> None:
        random = Random(seed)
        graph = random_graph(random)
        compiled = CompiledGraph(graph)
        declared = random.choice(sources(graph))
        self.workers = SubstreamWorkers(compiled, declared, workers, KEYS, random, is_owned=is_owned)
        reached = [location for location in compiled.locations if declared in compiled.reaching(location)]
        self.asked = [location for location in reached if random.random() < 0.6]
        self.reached = {compiled.index[location] for location in self.asked}
        ordered = {location for location in self.asked if random.random() < 0.5}
        self.ordered = {compiled.index[location] for location in ordered}
        self.tracker = SubstreamTracker(compiled, declared, senders(self.workers.senders), self.asked, ordered)
        self.story = (
            f"seed {seed}, {workers} workers, owned: {is_owned}, declared at {declared}\n{describe_graph(graph)}"
        )
        self.ended: Counter[SubstreamEnd] = Counter()
        self.order: dict[int, list[Key]] = {}

    def take(self, batch: list[SubstreamChange]) -> None:
        """Have the view take a batch, and check what it says."""
        for end in take(self.tracker, batch):
            self.ended[end] += 1
            self.order.setdefault(end.location, []).append(end.key)
            assert not self.workers.is_live(end), f"{end} was told too early: {self.story}"


class Fault(NamedTuple):
    """A way to get it wrong: what becomes of a batch, and how many are believed to send at each key."""

    batches: Callable[[list[SubstreamChange]], list[list[SubstreamChange]]]
    senders: Callable[[int], int] = lambda senders: senders


def in_two_halves(batch: list[SubstreamChange]) -> list[list[SubstreamChange]]:
    """Apply what a batch takes away before what it adds."""
    return [[change for change in batch if change[1] < 0], [change for change in batch if change[1] > 0]]


FAULTS = {
    "batches are split": Fault(in_two_halves),
    "one sender too few": Fault(lambda batch: [batch], lambda senders: senders - 1),
}


def run_whole(run: Run, events: int, fault: Fault | None = None) -> None:
    """Run, finish, and see that every end was told."""
    for batch in chain(run.workers.run(events), run.workers.finish()):  # each as it arrives
        for part in [batch] if fault is None else fault.batches(batch):
            run.take(part)
    every = {SubstreamEnd(key, location) for key in range(KEYS) for location in run.reached}
    assert run.ended == Counter(every), f"not told once each: {run.story}"
    assert len(run.tracker) == 0, f"something is left: {run.story}"


@law_settings(300)
@given(seed=SEEDS, workers=st.integers(1, 4), is_owned=st.booleans(), events=st.integers(0, 80))
def test_ends_are_told_once_and_never_too_early(seed: int, workers: int, is_owned: bool, events: int) -> None:
    """Safety after every batch; in the end every substream has ended everywhere, and nothing is left of it.

    Where order was asked for, what every sender closed earlier has ended earlier.
    """
    run = Run(seed, workers, is_owned=is_owned)
    run_whole(run, events)
    for location in run.ordered & run.reached:
        for earlier, later in combinations(run.order[location], 2):
            assert not run.workers.closed_before(later, earlier), f"{later} ended after {earlier}: {run.story}"


def broken(seed: int, fault: Fault) -> str:
    """Return what a run with a fault breaks."""
    run = Run(seed, 3, is_owned=False, senders=fault.senders)
    try:
        run_whole(run, 60, fault)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_noticed(name: str) -> None:
    """Some substream would be said to have ended too early without what keeps that from happening."""
    assert any("too early" in broken(seed, FAULTS[name]) for seed in range(3000))


def test_a_cycle_does_not_hide_what_is_under_way() -> None:
    """What was consumed before this view hears of its making does not stand for what came round the cycle before it.

    Were points without times, the counts of the second and third batch would be those of a substream that has ended.
    """
    graph = GraphShape(
        (
            OperatorShape("input", (), (ROOT,), {}),
            OperatorShape(
                "loop",
                (ROOT, ROOT),
                (ROOT,),
                {(0, 0): (PathSummary.identity(ROOT),), (1, 0): (PathSummary.advance(ROOT, 1),)},
            ),
        ),
        ((Source(0, 0), Target(1, 0)), (Source(1, 0), Target(1, 1))),
    )
    compiled = CompiledGraph(graph)
    number = compiled.index
    again = number[Target(1, 1)]
    tracker = SubstreamTracker(compiled, Source(0, 0), 1, [Target(1, 0), Target(1, 1)])
    location, first = tracker.closing
    begun: list[SubstreamChange] = [(SubstreamPoint("k", again, 1), 1), (SubstreamPoint("k", location, first), -1)]
    twice = [(SubstreamPoint("k", again, 1), -1), (SubstreamPoint("k", again, 2), 2)]
    one_consumed = [(SubstreamPoint("k", again, 2), -1)]
    assert take(tracker, begun) == [SubstreamEnd("k", number[Target(1, 0)])]
    assert take(tracker, one_consumed) == []
    assert take(tracker, twice) == []
    assert take(tracker, one_consumed) == [SubstreamEnd("k", again)]
    assert len(tracker) == 0


def test_a_key_is_not_over_before_its_end_is_told() -> None:
    """What waits for its turn can still be told from what the key is used for again, which would be told in its place.

    The first substream to be closed has a message under way; of the second nothing is left, but it has to wait.
    """
    graph = GraphShape(
        (OperatorShape("input", (), (ROOT,), {}), OperatorShape("watch", (ROOT,), (), {})),
        ((Source(0, 0), Target(1, 0)),),
    )
    compiled = CompiledGraph(graph)
    at = compiled.index[Target(1, 0)]
    tracker = SubstreamTracker(compiled, Source(0, 0), 1, [Target(1, 0)], ordered=[Target(1, 0)])
    assert take(tracker, [(SubstreamPoint("a", at, 0), 1), (SubstreamPoint("a", *tracker.closing), -1)]) == []
    assert take(tracker, [(SubstreamPoint("b", *tracker.closing), -1)]) == []
    assert tracker.drain_over() == []
    assert take(tracker, [(SubstreamPoint("a", at, 0), -1)]) == [SubstreamEnd("a", at), SubstreamEnd("b", at)]
    assert sorted(map(str, tracker.drain_over())) == ["a", "b"]
    assert len(tracker) == 0


def test_another_view_goes_on_with_what_one_has_told() -> None:
    """An end is told once by both, in the order of closing that the first has told; what is counted comes again."""
    graph = GraphShape(
        (
            OperatorShape("input", (), (ROOT,), {}),
            OperatorShape("near", (ROOT,), (ROOT,), {(0, 0): (PathSummary.identity(ROOT),)}),
            OperatorShape("far", (ROOT,), (), {}),
        ),
        ((Source(0, 0), Target(1, 0)), (Source(1, 0), Target(2, 0))),
    )
    compiled = CompiledGraph(graph)
    near, far = (compiled.index[Target(operator, 0)] for operator in (1, 2))
    asked = [Target(1, 0), Target(2, 0)]
    before, tracker = (SubstreamTracker(compiled, Source(0, 0), 1, asked, asked[1:]) for _ in range(2))
    closed_a: list[SubstreamChange] = [(SubstreamPoint("a", far, 0), 1), (SubstreamPoint("a", *before.closing), -1)]
    closed_b: list[SubstreamChange] = [(SubstreamPoint("b", *before.closing), -1)]
    assert take(before, closed_a) == [SubstreamEnd("a", near)]
    assert take(before, closed_b) == [SubstreamEnd("b", near)]
    assert before.drain_closed() == ["a", "b"]
    tracker.go_on(before.told())
    assert tracker.told() == before.told()
    assert take(tracker, closed_b) == []
    assert take(tracker, closed_a) == []
    assert tracker.drain_closed() == []
    assert take(tracker, [(SubstreamPoint("a", far, 0), -1)]) == [SubstreamEnd("a", far), SubstreamEnd("b", far)]
    assert sorted(map(str, tracker.drain_over())) == ["a", "b"]
    assert len(tracker) == 0


def test_where_no_substream_gets_none_is_awaited() -> None:
    """Whoever asked for ends there would wait for ever."""
    graph = GraphShape((OperatorShape("one", (), (ROOT,), {}), OperatorShape("other", (), (ROOT,), {})), ())
    compiled = CompiledGraph(graph)
    with pytest.raises(GraphError, match=r"from output 0 of 'one', where .* declared, to output 0 of 'other'"):
        SubstreamTracker(compiled, Source(0, 0), 1, [Source(1, 0)])
