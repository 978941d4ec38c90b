"""`Job.explain` against who sees everything: in random dataflows that get stuck in many places at once."""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

import tidewheel as tw
from tests.kit.runtime.one_operator import settle
from tests.kit.runtime.stuck_flows import deploy
from tests.laws.oracles import possible_frontiers
from tests.laws.strategies import SEEDS, law_settings
from tidewheel.progress import GraphShape, Location, SpreadName, Target, Time
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.engines.local_job import LocalJob
from tidewheel.runtime.explaining.explanation import Explanation, Holder

SPREADS: st.SearchStrategy[SpreadName] = st.sampled_from(["broadcast", "accumulated"])
SEGMENTS = ["map", "exchange", "hoard", "deaf", "loop", "loop", "side", "gate"]
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


def gate(context: tw.OperatorContext) -> Schedule:
    """Build an operator that lets an epoch pass when its control input, which lends no tokens, has passed it."""
    held: list[tuple[tw.TimestampToken, Any]] = []

    def schedule(data: tw.InputPort, control: tw.InputPort, output: tw.OutputPort) -> None:
        for _ in control:
            pass
        held.extend((lent.retain(output), batch) for lent, batch in data)
        for token, batch in [one for one in held if not control.frontier.less_equal(one[0].time)]:
            with token:
                output.send(token, batch)
        held[:] = [one for one in held if one[0].is_live]

    return schedule


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
        spread = numbers.exchange(lambda number: number).unary(careless(seed), name="hoard").probe(f"within {index}")
        return spread.map(lambda number: number - 1).filter(lambda number: number > 0), spread.map(abs)

    match segment:
        case "map":
            return stream.map(lambda number: number + 1).map(lambda number: number - 1)
        case "exchange":
            return stream.exchange(lambda number: number)
        case "loop":
            return stream.iterate(body)
        case "side":
            return stream.concat(flow.input(f"side {index}").unary(careless(seed), name="hoard"))
        case "gate":
            control = flow.input(f"control {index}")
            (made,) = flow.operator(
                [stream, control], 1, gate, {(0, 0): tw.progress.PathSummary.identity(control.nesting)}, name="gate"
            )
            return made
    return stream.unary(careless(seed), name=segment)


def really_live(job: LocalJob) -> Live:
    """Count the tokens that are held and the messages that wait, on all workers of a job at rest."""
    compiled = job._compiled
    live: Live = Counter()
    for core in job._cores:
        for (location, time), count in core.ledger.held:
            live[compiled.locations[location], time] += count
        for number, port in core._ports.items():
            live.update((compiled.locations[number], message.time) for message in port.queue)
    return live


def check(job: LocalJob, graph: GraphShape, name: str) -> None:
    """Compare what is said of one probe with what is so."""
    live = really_live(job)
    explanation = job.explain(name)
    end = job.plan.probes[name]
    frontier = possible_frontiers(graph, live)[end]
    assert set(explanation.frontier) == frontier == set(job.probe(name).frontier)
    direct = [holder for holder in explanation.holders if not holder.port]
    assert {holder.arrives for holder in direct} == frontier
    holding = {stamp for stamp in live if possible_frontiers(graph, [stamp])[end] & frontier}
    waiting = {stamp for stamp in holding if any(leads_to(graph, other, stamp) for other in holding - {stamp})}
    advised = [holder.advice != "" for holder in explanation.holders]
    assert sorted(advised, reverse=True) == advised, "those who wait come last"
    assert Counter(said(one) for one in direct if one.advice) == Counter(key(job, stamp) for stamp in holding - waiting)
    assert Counter(said(one) for one in direct if not one.advice) == Counter(key(job, stamp) for stamp in waiting)
    names = set(job.statistics().operators)
    for holder in explanation.holders:
        assert set(holder.workers) == where(job, holder.operator, holder.time, "message" in holder.what)
        assert holder.path.results_in(holder.time) == holder.arrives
        last = holder.port.split("'")[1] if holder.port else name_of(job, end)
        assert (holder.route[0], holder.route[-1]) == (holder.operator, last)
        assert set(holder.route) <= names
    check_what_is_further_back(job, graph, explanation, holding - waiting)


def check_what_is_further_back(
    job: LocalJob, graph: GraphShape, explanation: Explanation, causes: set[tuple[Location, Time]]
) -> None:
    """Only who can never run again is said to leak; to others belongs all that holds back an input they may wait for.

    What is told of an input is told of somebody who waits for no other.
    """
    live = really_live(job)
    frontiers = possible_frontiers(graph, live)
    told = {said(holder) for holder in explanation.holders}
    listed = [stamp for stamp in live if key(job, stamp) in told]
    for holder in explanation.holders:
        if holder.port:
            [stamp] = [stamp for stamp in live if key(job, stamp) == said(holder)]
            assert not any(leads_to(graph, other, stamp) for other in live if other != stamp)
            assert holder.arrives in frontiers[target_of(job, holder.port)]
    for location, time in causes:
        if not isinstance(location, Source) or not job.plan.operators[location.operator].sources:
            continue
        [holder] = [one for one in explanation.holders if said(one) == key(job, (location, time)) and not one.port]
        others = possible_frontiers(graph, set(live) - {(location, time)})
        inputs = [Target(location.operator, port) for port in range(len(graph.operators[location.operator].inputs))]
        assert ("nothing schedules" in holder.advice) == (not any(others[port] for port in inputs))
        late = [
            port for port in inputs if graph.nesting(port) == graph.nesting(location) and is_at(port, time, frontiers)
        ]
        if "gate" in holder.operator and late:
            assert "control" in explanation.holders[explanation.holders.index(holder) - 1].operator
        for port in (late or inputs) if "nothing schedules" not in holder.advice else ():
            arriving = set().union(*(possible_frontiers(graph, [stamp])[port] for stamp in listed))
            assert frontiers[port] <= arriving


def is_at(port: Target, time: Time, frontiers: Mapping[Location, set[Time]]) -> bool:
    """Tell whether a time can still come at a port outside of loops."""
    return any(isinstance(earlier, int) and earlier <= time for earlier in frontiers[port])


def target_of(job: LocalJob, text: str) -> Target:
    _, port, _, name = text.split(" ", 3)
    found = [Target(number, int(port)) for number in range(len(job.plan.operators))]
    return next(target for target in found if repr(name_of(job, target)) == name)


def said(holder: Holder) -> tuple[str, Time, bool]:
    return holder.operator, holder.time, "message" in holder.what


def name_of(job: LocalJob, at: Location) -> str:
    """Return the name of an operator, or of the stage at that end of a chain."""
    operator = job.plan.operators[at.operator]
    ends = [stage.name for stage in operator.stages] or [operator.name]
    return ends[0] if isinstance(at, Target) else ends[-1]


def key(job: LocalJob, stamp: tuple[Location, Time]) -> tuple[str, Time, bool]:
    location, time = stamp
    return name_of(job, location), time, isinstance(location, Target)


def leads_to(graph: GraphShape, first: tuple[Location, Time], then: tuple[Location, Time]) -> bool:
    """Tell whether a pointstamp can bring about another."""
    location, time = then
    less_equal = graph.nesting(location).domain.less_equal
    return any(less_equal(arrival, time) for arrival in possible_frontiers(graph, [first])[location])


def where(job: LocalJob, operator: str, time: Time, messages: bool) -> set[int]:
    """Return the workers that have messages, or tokens, of an operator at a time."""
    found = set()
    for core in job._cores:
        held: list[tuple[int, Any]] = [stamp for stamp, _ in core.ledger.held]
        waiting = [(number, message.time) for number, port in core._ports.items() for message in port.queue]
        for number, at in waiting if messages else held:
            location = job._compiled.locations[number]
            if (name_of(job, location), at) == (operator, time):
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
                if random.random() < 0.8:
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
        job.stop()
