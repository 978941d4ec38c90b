"""Random dataflow graphs with loops and nested scopes, from a `random.Random`, for laws and simulations alike.

Operators come first: inputs, operators that enter or leave a scope, feedback operators, and operators with any number
of ports in any scopes and any paths between them. Edges then join ports of one nesting; each input port gets at most
one. Where idle cycles are not wanted, an edge that would close one is not laid.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from random import Random

from tests.laws.domains import INTEGERS, small_summaries
from tidewheel.progress import (
    ROOT,
    GraphShape,
    Location,
    Nesting,
    OperatorShape,
    PathSummary,
    Step,
    Target,
    Time,
    TimeDomain,
)
from tidewheel.progress.graph import Source


@dataclass(frozen=True, slots=True)
class GraphLimits:
    """How large and how odd a random graph may be.

    Args:
        operators: the most operators.
        depth: the most scopes around a location.
        root: the nesting outside all scopes.
        coordinates: the domains of the coordinates that scopes add.
        forgetful: whether a path through an operator may forget a coordinate that both its ends have, as the path
            that leaves a scope and enters one like it does.
    """

    operators: int = 8
    depth: int = 3
    root: Nesting = ROOT
    coordinates: tuple[TimeDomain, ...] = (INTEGERS,)
    forgetful: bool = True


def random_graph(random: Random, limits: GraphLimits | None = None, *, idle_cycles: bool = False) -> GraphShape:
    """Return a random graph; with ``idle_cycles``, one that may have cycles that do not advance time."""
    chosen = limits or GraphLimits()
    chosen = replace(chosen, depth=random.randint(0, chosen.depth))  # a flat graph has more loops than a deep one
    count = max(random.randint(1, chosen.operators) for _ in range(3))
    operators = tuple(_random_operator(random, chosen, index) for index in range(count))
    unconnected = GraphShape(operators, ())
    targets = [location for location in unconnected.locations() if isinstance(location, Target)]
    random.shuffle(targets)
    edges: list[tuple[Source, Target]] = []
    steps = list(unconnected.steps())
    for target in targets:
        source = _random_source(random, unconnected, steps, target, idle_cycles=idle_cycles)
        if source is not None:
            edges.append((source, target))
            steps.append(Step(source, target, PathSummary.identity(unconnected.nesting(target))))
    apart = frozenset(target for target in targets if random.random() < 0.2)
    return GraphShape(operators, tuple(edges), apart, random.choice((1, 2, 3)))


def random_ring(random: Random, limits: GraphLimits | None = None) -> GraphShape:
    """Return one cycle through operators with one path each, in random scopes; it may or may not advance time."""
    chosen = limits or GraphLimits()
    count = random.randint(1, chosen.operators)
    least_depth = random.randint(0, chosen.depth)  # a cycle need not come back to the root
    nestings = [_random_nesting(random, chosen, least_depth) for _ in range(count)]
    operators = tuple(
        _straight(f"operator-{index}", _random_path(random, chosen, nestings[index - 1], nestings[index]))
        for index in range(count)
    )
    edges = ((Source(index - 1, 0), Target(index, 0)) for index in range(1, count))
    return GraphShape(operators, (*edges, (Source(count - 1, 0), Target(0, 0))))


def describe_graph(graph: GraphShape) -> str:
    """Return a graph in a few lines: each operator with its paths, then the edges."""
    lines = []
    for operator in graph.operators:
        depths = ", ".join(
            f"{side} at {[nesting.depth for nesting in nestings]}"
            for side, nestings in (("inputs", operator.inputs), ("outputs", operator.outputs))
        )
        paths = "; ".join(
            f"{start}->{end}: {' '.join(f'{path.advances}+{path.appended}' for path in paths)}"
            for (start, end), paths in operator.summaries.items()
        )
        lines.append(f"{operator.name}: {depths}; {paths}")
    lines.extend(f"{graph.describe(source)} => {graph.describe(target)}" for source, target in graph.edges)
    return "\n".join(lines)


def later(random: Random, domain: TimeDomain, time: Time) -> Time:
    """Return a time at or after ``time``."""
    result = domain.results_in(random.choice(small_summaries(domain)), time)
    return time if result is None else result


def _random_nesting(random: Random, limits: GraphLimits, least_depth: int = 0) -> Nesting:
    nesting = limits.root
    for _ in range(random.randint(least_depth, limits.depth)):
        nesting = nesting.inside(random.choice(limits.coordinates))
    return nesting


def _random_operator(random: Random, limits: GraphLimits, index: int) -> OperatorShape:
    kinds = ["operator", "operator", "operator", "feedback", "feedback"]
    if limits.depth:
        kinds += ["enter", "leave"]
    kind = "input" if index == 0 else random.choice(kinds)
    name = f"{kind}-{index}"
    if kind == "input":
        return OperatorShape(name, (), (_random_nesting(random, limits),), {})
    if kind == "feedback":
        nesting = _random_nesting(random, limits)
        summary = random.choice(small_summaries(nesting.coordinate_domains[-1])[1:] or ((),))
        return _straight(name, PathSummary.advance(nesting, summary))
    if kind == "enter":
        return _straight(name, PathSummary.enter(_random_nesting(random, limits, 1)))
    if kind == "leave":
        return _straight(name, PathSummary.leave(_random_nesting(random, limits, 1)))
    return _random_shape(random, limits, name)


def _straight(name: str, path: PathSummary) -> OperatorShape:
    return OperatorShape(name, (path.source,), (path.target,), {(0, 0): (path,)})


def _random_shape(random: Random, limits: GraphLimits, name: str) -> OperatorShape:
    usual = _random_nesting(random, limits)
    ports = [usual if random.random() < 0.8 else _random_nesting(random, limits) for _ in range(5)]
    inputs, outputs = tuple(ports[: random.choice((1, 1, 2, 2, 3))]), tuple(ports[3 : random.choice((3, 4, 4, 5, 5))])
    summaries = {}
    for port_in, source in enumerate(inputs):
        for port_out, target in enumerate(outputs):
            if limits.forgetful or _common(source, target) == min(source.depth, target.depth) + 1:
                count = random.choice((0, 1, 1, 1, 2, 2))
                paths = tuple(_random_path(random, limits, source, target) for _ in range(count))
                summaries[port_in, port_out] = paths
    return OperatorShape(name, inputs, outputs, summaries)


def _common(source: Nesting, target: Nesting) -> int:
    """Return how many coordinates a path between two nestings can keep."""
    pairs = zip(source.coordinate_domains, target.coordinate_domains, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _random_path(random: Random, limits: GraphLimits, source: Nesting, target: Nesting) -> PathSummary:
    kept = _common(source, target)
    if limits.forgetful and random.random() < 0.4:
        kept = random.randint(1, kept)
    return PathSummary(
        source,
        target,
        tuple(
            random.choice(small_summaries(domain)) if random.random() < (0.4 if index else 0.15) else domain.identity()
            for index, domain in enumerate(source.coordinate_domains[:kept])
        ),
        tuple(later(random, domain, domain.minimum()) for domain in target.coordinate_domains[kept:]),
    )


def _random_source(
    random: Random, graph: GraphShape, steps: Sequence[Step], target: Target, *, idle_cycles: bool
) -> Source | None:
    if random.random() < 0.05:
        return None
    candidates = [
        location
        for location in graph.locations()
        if isinstance(location, Source) and graph.nesting(location) == graph.nesting(target)
    ]
    random.shuffle(candidates)
    return next((source for source in candidates if idle_cycles or not _idle_path(steps, target, source)), None)


def _idle_path(steps: Iterable[Step], start: Location, end: Location) -> bool:
    """Tell whether some path from ``start`` to ``end`` advances none of the coordinates that it keeps.

    Searches the states (location, number of coordinates kept so far, first coordinate advanced so far).
    """
    outgoing: dict[Location, list[Step]] = {}
    for step in steps:
        outgoing.setdefault(step.start, []).append(step)
    found = {(start, 99, 99)}
    stack = list(found)
    while stack:
        location, kept, advanced = stack.pop()
        for step in outgoing.get(location, ()):
            state = (step.end, min(kept, len(step.summary.advances)), min([advanced, *_advanced(step.summary)]))
            if state not in found:
                found.add(state)
                stack.append(state)
    return any(location == end and advanced >= kept for location, kept, advanced in found)


def _advanced(summary: PathSummary) -> Iterator[int]:
    for index, (domain, advance) in enumerate(zip(summary.source.coordinate_domains, summary.advances, strict=False)):
        if advance != domain.identity():
            yield index
