"""Every way in which workers tell each other of their progress, held back or not, against who sees everything."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.graphs import GraphLimits, describe_graph, random_graph
from tests.laws.oracles import possible_frontiers
from tests.laws.simulated_workers import SPREADS, MakeSpread, SimulatedWorkers, View
from tests.laws.strategies import SEEDS, law_settings
from tests.laws.test_tracker import GRAPHS
from tidewheel.progress import Antichain, CompiledGraph, GraphShape, Location

every_spread = pytest.mark.parametrize("make", SPREADS.values(), ids=SPREADS.keys())
runs = given(graph=GRAPHS, workers=st.integers(1, 4), events=st.integers(0, 50), seed=SEEDS)


class Run:
    """One random run, and what to print when it breaks a promise."""

    def __init__(self, graph: GraphShape, workers: int, seed: int, make: MakeSpread) -> None:
        random = Random(seed)
        compiled = CompiledGraph(graph)
        share = random.choice((0.1, 0.4, 1.0))
        self.graph = graph
        self.interesting: list[Location] = [
            location for location in compiled.locations if random.random() < share
        ] or list(compiled.locations[:1])
        self.workers = SimulatedWorkers(compiled, workers, self.interesting, random, make)
        self.story = f"seed {seed}, {workers} workers\n{describe_graph(graph)}"

    def frontiers(self, view: View) -> dict[Location, Antichain]:
        """Return all kept frontiers of a view."""
        return {location: view.tracker.frontier(location) for location in self.interesting}

    def all_events(self, events: int) -> Iterator[View]:
        """Run, come to rest in the middle, run on, then finish."""
        yield from self.workers.run(events)
        yield from self.workers.settle()
        yield from self.workers.run(events)
        yield from self.workers.finish()

    def check_at_rest(self) -> None:
        """Every view's frontiers are the true ones: nothing that matters is held back any more."""
        true = possible_frontiers(self.graph, self.workers.live())
        for view in self.workers.views:
            for location, frontier in self.frontiers(view).items():
                assert set(frontier) == true[location], f"late at {self.graph.describe(location)}: {self.story}"


@every_spread
@law_settings(40)
@runs
def test_no_frontier_passes_what_can_still_arrive(
    make: MakeSpread, graph: GraphShape, workers: int, events: int, seed: int
) -> None:
    """Safety: whatever can still arrive is at or after every view's frontier, after every event."""
    run = Run(graph, workers, seed, make)
    for _ in run.all_events(events):
        possible = possible_frontiers(graph, run.workers.live())
        for view in run.workers.views:
            for location, frontier in run.frontiers(view).items():
                assert all(map(frontier.less_equal, possible[location])), (
                    f"{frontier} at {graph.describe(location)} passed {possible[location]}: {run.story}"
                )


@every_spread
@law_settings(40)
@runs
def test_frontiers_only_move_on_and_say_when(
    make: MakeSpread, graph: GraphShape, workers: int, events: int, seed: int
) -> None:
    """A frontier never goes back; exactly the locations whose frontier moved are reported; it is that of its counts."""
    run = Run(graph, workers, seed, make)
    last = {id(view): run.frontiers(view) for view in run.workers.views}
    for view in run.all_events(events):
        before, now = last[id(view)], run.frontiers(view)
        expected = possible_frontiers(graph, view.live())
        for location, frontier in now.items():
            assert before[location].dominates(frontier), f"{graph.describe(location)}: {run.story}"
            assert set(frontier) == expected[location], run.story
        moved = {location for location, frontier in now.items() if frontier != before[location]}
        assert moved == view.moved, run.story
        last[id(view)] = now


@every_spread
@law_settings(60)
@runs
def test_at_rest_every_frontier_is_the_true_one(
    make: MakeSpread, graph: GraphShape, workers: int, events: int, seed: int
) -> None:
    """What matters is never held back for ever, also while much is still held; at the end all is complete."""
    run = Run(graph, workers, seed, make)
    for _ in range(3):
        for _ in run.workers.run(events // 2):
            pass
        for _ in run.workers.settle():
            pass
        run.check_at_rest()
    for _ in run.workers.finish():
        pass
    assert not run.workers.live(), run.story
    run.check_at_rest()
    assert all(view.tracker.is_complete for view in run.workers.views), run.story


@every_spread
@law_settings(40)
@runs
def test_what_all_know_together_is_the_truth(
    make: MakeSpread, graph: GraphShape, workers: int, events: int, seed: int
) -> None:
    """At rest, one worker's knowledge and what the others have not sent add up to the true counts, for each worker."""
    run = Run(graph, workers, seed, make)
    for _ in run.workers.run(events):
        pass
    for _ in run.workers.settle():
        pass
    truth = {pointstamp: count for pointstamp, count in run.workers.truth.items() if count}
    locations = tuple(graph.locations())
    for number, view in enumerate(run.workers.views):
        known = dict(view.spread.knowledge().counts)
        for other, peer in enumerate(run.workers.views):
            for pointstamp, difference in peer.spread.unsent() if other != number else []:
                known[pointstamp] = known.get(pointstamp, 0) + difference
        assert {(locations[at], time): count for (at, time), count in known.items() if count} == truth, run.story


@pytest.mark.parametrize("name", ["broadcast", "accumulated"])
def test_holding_back_says_less(name: str) -> None:
    """In the same runs fewer messages are sent and fewer changes told, and at rest something is still held."""
    totals = {}
    for way in (name, f"{name}, held back"):
        messages = changes = held = 0
        for seed in range(40):
            graph = random_graph(Random(seed), GraphLimits(operators=8))
            run = Run(graph, 3, seed, SPREADS[way])
            for _ in run.workers.run(60):
                pass
            for _ in run.workers.settle():
                pass
            messages += sum(view.spread.batches_sent for view in run.workers.views)
            changes += sum(view.spread.changes_sent for view in run.workers.views)
            held += sum(len(view.spread.unsent()) for view in run.workers.views)
        totals[way] = messages, changes, held
    at_once, held_back = totals.values()
    assert at_once[2] == 0 < held_back[2]
    assert held_back[0] < at_once[0] * 0.9
    assert held_back[1] < at_once[1]
