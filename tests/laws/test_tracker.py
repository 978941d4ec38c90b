"""Trackers of several workers against brute force, while a dataflow runs at random."""

from collections.abc import Iterator
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.domains import BITEMPORAL, INTEGERS, VECTOR_CLOCK, small_times
from tests.laws.graphs import GraphLimits, describe_graph
from tests.laws.oracles import is_kept, possible_frontiers, sources
from tests.laws.simulated_workers import SimulatedWorkers, View
from tests.laws.strategies import SEEDS, graphs, law_settings, nested_graphs
from tidewheel.progress import Antichain, CompiledGraph, GraphShape, Location, Nesting, Tracker

GRAPHS = st.one_of(
    nested_graphs(),
    graphs(GraphLimits(operators=7)),
    graphs(GraphLimits(operators=5, depth=1, root=Nesting((BITEMPORAL,)))),
    graphs(GraphLimits(operators=5, depth=1, root=Nesting((VECTOR_CLOCK,)), coordinates=(INTEGERS, BITEMPORAL))),
)

runs = given(graph=GRAPHS, workers=st.integers(1, 3), events=st.integers(0, 40), seed=SEEDS)


class Run:
    """One random run, and what to print when it breaks a promise."""

    def __init__(self, graph: GraphShape, workers: int, seed: int, *, interesting: float = 1.0) -> None:
        random = Random(seed)
        compiled = CompiledGraph(graph)
        self.graph = graph
        self.interesting: list[Location] = [
            location for location in compiled.locations if random.random() < interesting
        ]
        self.workers = SimulatedWorkers(compiled, workers, self.interesting, random)
        self.story = f"seed {seed}, {workers} workers\n{describe_graph(graph)}"

    def frontiers(self, view: View) -> dict[Location, Antichain]:
        """Return all kept frontiers of a view."""
        return {location: view.tracker.frontier(location) for location in self.interesting}

    def all_events(self, events: int) -> Iterator[View]:
        """Run, then finish."""
        yield from self.workers.run(events)
        yield from self.workers.finish()


@law_settings(20)
@given(graph=GRAPHS, workers=st.integers(1, 3))
def test_every_source_starts_with_a_token_for_each_worker(graph: GraphShape, workers: int) -> None:
    """At first every source has as many pointstamps at the minimum time as there are workers, and nothing else has."""
    compiled = CompiledGraph(graph)
    tracker = Tracker(compiled, workers, compiled.locations)
    minima = [(source, graph.nesting(source).domain.minimum()) for source in sources(graph)]
    assert {
        (compiled.locations[pointstamp.location], pointstamp.time): count for pointstamp, count in tracker.counts()
    } == dict.fromkeys(minima, workers)
    assert tracker.is_complete == (not minima)
    for location, expected in possible_frontiers(graph, minima).items():
        assert set(tracker.frontier(location)) == expected


@law_settings(80)
@runs
def test_frontiers_agree_with_brute_force(graph: GraphShape, workers: int, events: int, seed: int) -> None:
    """In every view a frontier is the minimal times at which what is counted can arrive; no count hides another."""
    run = Run(graph, workers, seed)
    locations = tuple(graph.locations())
    for view in run.all_events(events):
        expected = possible_frontiers(graph, view.live())
        for location in run.interesting:
            found = view.tracker.frontier(location)
            assert set(found) == expected[location], f"{graph.describe(location)}: {run.story}"
        counts = {pointstamp: count for pointstamp, count in view.counts.items() if count}
        assert {(locations[number], time): count for (number, time), count in view.tracker.counts()} == counts, seed
        assert view.tracker.is_complete == (not view.live()), run.story


@law_settings(80)
@runs
def test_no_frontier_passes_what_can_still_arrive(graph: GraphShape, workers: int, events: int, seed: int) -> None:
    """Safety: whatever can still arrive, as one who sees everything knows, is at or after every view's frontier."""
    run = Run(graph, workers, seed, interesting=0.4)
    for _ in run.all_events(events):
        possible = possible_frontiers(graph, run.workers.live())
        for view in run.workers.views:
            for location, frontier in run.frontiers(view).items():
                assert all(map(frontier.less_equal, possible[location])), (
                    f"{frontier} at {graph.describe(location)} passed {possible[location]}: {run.story}"
                )


@law_settings(80)
@runs
def test_frontiers_never_go_back(graph: GraphShape, workers: int, events: int, seed: int) -> None:
    """A frontier only moves on, and exactly the locations whose frontier moved are reported."""
    run = Run(graph, workers, seed, interesting=0.4)
    last = {id(view): run.frontiers(view) for view in run.workers.views}
    for view in run.all_events(events):
        before, now = last[id(view)], run.frontiers(view)
        for location, frontier in now.items():
            assert before[location].dominates(frontier), f"{graph.describe(location)}: {run.story}"
        moved = {location for location, frontier in now.items() if frontier != before[location]}
        assert moved == view.moved, run.story
        last[id(view)] = now


@law_settings(80)
@runs
def test_all_is_complete_at_the_end(graph: GraphShape, workers: int, events: int, seed: int) -> None:
    """With every token dropped, every message consumed and every batch delivered, each view is complete and empty."""
    run = Run(graph, workers, seed)
    for _ in run.all_events(events):
        pass
    assert not run.workers.live(), run.story
    for view in run.workers.views:
        assert view.tracker.is_complete, run.story
        assert dict(view.tracker.counts()) == {}, run.story
        assert all(len(frontier) == 0 for frontier in run.frontiers(view).values()), run.story


@law_settings(40)
@runs
def test_only_what_somebody_asks_about_is_kept(graph: GraphShape, workers: int, events: int, seed: int) -> None:
    """A frontier is the same whichever other locations are of interest; the rest are kept nowhere."""
    run = Run(graph, workers, seed, interesting=0.4)
    for view in run.all_events(events):
        expected = possible_frontiers(graph, view.live())
        for location in graph.locations():
            assert is_kept(view.tracker, location) == (location in run.interesting), run.story
        for location, frontier in run.frontiers(view).items():
            assert set(frontier) == expected[location], run.story


@law_settings(25)
@given(graph=nested_graphs(), workers=st.integers(1, 3), seed=SEEDS)
def test_loops_in_loops_with_little_of_interest(graph: GraphShape, workers: int, seed: int) -> None:
    """Frontiers are carried round loops from their heads or from all of interest in them: brute force cannot tell."""
    for share in (0.05, 0.2, 0.6):
        run = Run(graph, workers, seed, interesting=share)
        for view in run.all_events(25):
            expected = possible_frontiers(graph, view.live())
            for location, frontier in run.frontiers(view).items():
                assert set(frontier) == expected[location], f"{graph.describe(location)}: {run.story}"


@law_settings(60)
@given(
    graph=GRAPHS,
    workers=st.integers(1, 3),
    events=st.integers(0, 25),
    share=st.sampled_from([0.1, 0.5, 1.0]),
    seed=SEEDS,
)
def test_what_is_covered_matters_to_no_frontier(
    graph: GraphShape, workers: int, events: int, share: float, seed: int
) -> None:
    """A pointstamp that `covered_by` finds covered may come or go: no frontier that is kept depends on it."""
    run = Run(graph, workers, seed, interesting=share)
    random = Random(seed)
    numbers = {location: number for number, location in enumerate(graph.locations())}
    for view in run.all_events(events):
        live = set(view.live())
        strangers = [(location, random.choice(small_times(graph.nesting(location).domain))) for location in numbers]
        expected = possible_frontiers(graph, live)
        for pointstamp in (
            *random.choices([*sorted(live, key=repr), strangers[0]], k=3),
            *random.choices(strangers, k=2),
        ):
            location, time = pointstamp
            cover = view.tracker.covered_by(numbers[location], time)
            if cover is None:
                continue
            assert is_kept(view.tracker, tuple(numbers)[cover])
            with_it, without = (
                possible_frontiers(graph, live | {pointstamp}),
                possible_frontiers(graph, live - {pointstamp}),
            )
            for kept in run.interesting:
                assert with_it[kept] == without[kept] == expected[kept], f"{pointstamp} by {cover}: {run.story}"
