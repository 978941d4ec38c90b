"""`Job.explain` against who sees everything: in random dataflows that get stuck in many places at once."""

from collections import Counter
from random import Random
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

import tidewheel as tw
from tests.laws.oracles import possible_frontiers
from tests.laws.strategies import SEEDS, law_settings
from tests.unit.runtime.one_operator import settle
from tests.unit.runtime.stuck_flows import deploy
from tidewheel.progress import GraphShape, Location, SpreadName, Target, Time
from tidewheel.runtime.local_job import LocalJob
from tidewheel.runtime.plan import Build, Schedule

SPREADS: st.SearchStrategy[SpreadName] = st.sampled_from(["broadcast", "accumulated"])
SEGMENTS = ["map", "exchange", "hoard", "deaf", "loop", "loop", "side"]
Live = Counter[tuple[Location, Time]]


def careless(seed: int) -> Build:
    """Return an operator that keeps some tokens, drops some of them later, and leaves some messages unread."""

    def build(context: tw.OperatorContext) -> Schedule:
        random = Random(f"{seed} {context.name} {context.worker}")
        kept: list[tw.TimestampToken] = []

        def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
            if "deaf" in context.name and random.random() < 0.6:
                return
            for lent, batch in input:
                if random.random() < 0.5:
                    kept.append(lent.retain())
                output.send(lent, batch)
                if random.random() < 0.2:
                    break
            while kept and random.random() < 0.6:
                kept.pop(random.randrange(len(kept))).discard()

        return schedule

    return build


def describe(segments: list[str], seed: int) -> tw.Dataflow:
    """Return a dataflow of these segments in a row, with a probe after each, and some within."""
    flow = tw.Dataflow("stuck")
    stream = flow.input("numbers")
    for index, segment in enumerate(segments):
        stream = add(flow, stream, segment, index, seed).probe(f"after {index}")
    stream.capture("results")
    return flow


def add(flow: tw.Dataflow, stream: tw.Stream[int], segment: str, index: int, seed: int) -> tw.Stream[int]:
    def body(numbers: tw.Stream[int]) -> tuple[tw.Stream[int], tw.Stream[int]]:
        spread = numbers.exchange(lambda number: number).unary("hoard", careless(seed)).probe(f"within {index}")
        return spread.map(lambda number: number - 1).filter(lambda number: number > 0), spread.map(abs)

    match segment:
        case "map":
            return stream.map(lambda number: number + 1).map(lambda number: number - 1)
        case "exchange":
            return stream.exchange(lambda number: number)
        case "loop":
            return stream.iterate(body)
        case "side":
            return stream.concat(flow.input(f"side {index}").unary("hoard", careless(seed)))
    return stream.unary(segment, careless(seed))


def really_live(job: LocalJob) -> Live:
    """Count the tokens that are held and the messages that wait, on all workers of a job at rest."""
    compiled = job._compiled
    live: Live = Counter()
    for core in job._cores:
        for (location, time), count in core.ledger.held:
            live[compiled.locations[location], time] += count
        for number, port in core._ports.items():
            live.update((compiled.locations[number], time) for time, _ in port.queue)
    return live


def check(job: LocalJob, graph: GraphShape, name: str) -> None:
    """Compare what is said of one probe with what is so."""
    live = really_live(job)
    explanation = job.explain(name)
    end = job.plan.probes[name]
    frontier = possible_frontiers(graph, live)[end]
    assert set(explanation.frontier) == frontier == set(job.probe(name).frontier)
    assert {holder.arrives for holder in explanation.holders} == frontier
    holding = {stamp for stamp in live if possible_frontiers(graph, [stamp])[end] & frontier}
    waiting = {stamp for stamp in holding if any(leads_to(graph, other, stamp) for other in holding - {stamp})}
    described = [(holder.operator, holder.time, "message" in holder.what) for holder in explanation.holders]
    advised = [holder.advice != "" for holder in explanation.holders]
    assert sorted(advised, reverse=True) == advised, "those who wait come last"
    assert Counter(described[: sum(advised)]) == Counter(key(graph, stamp) for stamp in holding - waiting)
    assert Counter(described[sum(advised) :]) == Counter(key(graph, stamp) for stamp in waiting)
    for holder in explanation.holders:
        assert set(holder.workers) == where(job, graph, holder.operator, holder.time, "message" in holder.what)
        assert holder.path.results_in(holder.time) == holder.arrives
        assert (holder.route[0], holder.route[-1]) == (holder.operator, graph.operators[end.operator].name)
        assert all(operator in names(graph) for operator in holder.route)


def key(graph: GraphShape, stamp: tuple[Location, Time]) -> tuple[str, Time, bool]:
    location, time = stamp
    return graph.operators[location.operator].name, time, isinstance(location, Target)


def leads_to(graph: GraphShape, first: tuple[Location, Time], then: tuple[Location, Time]) -> bool:
    """Tell whether a pointstamp can bring about another."""
    location, time = then
    less_equal = graph.nesting(location).domain.less_equal
    return any(less_equal(arrival, time) for arrival in possible_frontiers(graph, [first])[location])


def names(graph: GraphShape) -> set[str]:
    return {operator.name for operator in graph.operators}


def where(job: LocalJob, graph: GraphShape, operator: str, time: Time, messages: bool) -> set[int]:
    """Return the workers that have messages, or tokens, of an operator at a time."""
    found = set()
    for core in job._cores:
        held: list[tuple[int, Any]] = [stamp for stamp, _ in core.ledger.held]
        waiting = [(number, at) for number, port in core._ports.items() for at, _ in port.queue]
        for number, at in waiting if messages else held:
            location = job._compiled.locations[number]
            if (graph.operators[location.operator].name, at) == (operator, time):
                assert isinstance(location, Target) == messages
                found.add(core.worker)
    return found


@law_settings(30)
@given(workers=st.integers(1, 3), progress=SPREADS, seed=SEEDS)
def test_what_is_said_is_so(workers: int, progress: SpreadName, seed: int) -> None:
    """At rest, the frontier is the true one, and its holders are all tokens and messages that hold it, and no other.

    Whoever is told what to do comes first; the path and the workers are right.
    """
    random = Random(seed)
    segments = [random.choice(SEGMENTS) for _ in range(random.randint(1, 5))]
    note(str(segments))
    with deploy(describe(segments, seed), workers, progress) as job:
        graph = job.plan.graph()
        for time in range(random.randint(1, 4)):
            for name in job.plan.inputs:
                job.input(name).advance_to(time)
                for _ in range(random.randint(0, 3)):
                    job.input(name).send([random.randint(0, 5)])
            settle(job)
            for name in job.plan.probes:
                check(job, graph, name)
        for name in job.plan.inputs:
            job.input(name).close()
        settle(job)
        for name in job.plan.probes:
            check(job, graph, name)
