"""Brute force: what the progress layer must agree with.

Nothing here composes or compares summaries: times walk the graph one step at a time.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from tests.laws.domains import probing_times
from tidewheel.progress import GraphShape, Location, PathSummary, Step, Time, TimeDomain, Tracker
from tidewheel.progress.graph import Source

Arrivals: TypeAlias = tuple[Time | None, ...]
"""The arrivals of the probing times, in their order; None for one that does not arrive."""


def minimal_times(domain: TimeDomain, times: Iterable[Time]) -> set[Time]:
    """Return the elements of a set that are not after another."""
    distinct = set(times)
    return {
        time for time in distinct if not any(other != time and domain.less_equal(other, time) for other in distinct)
    }


def steps_from(graph: GraphShape) -> dict[Location, list[Step]]:
    """Return the steps that leave each location, read off the operators and edges themselves."""
    outgoing: dict[Location, list[Step]] = {location: [] for location in graph.locations()}
    for source, target in graph.edges:
        for end in graph.targets(target.operator, target.port):
            outgoing[source].append(Step(source, end, PathSummary.identity(graph.nesting(source))))
    for number, operator in enumerate(graph.operators):
        for (port_in, port_out), paths in operator.summaries.items():
            for start in graph.targets(number, port_in):
                outgoing[start].extend(Step(start, Source(number, port_out), path) for path in paths)
    return outgoing


def possible_frontiers(graph: GraphShape, live: Iterable[tuple[Location, Time]]) -> dict[Location, set[Time]]:
    """Return the minimal times that can still occur at each location, walking on from every live pointstamp.

    A walk stops where an earlier or equal time has been before, so it ends if every cycle advances time.
    """
    outgoing = steps_from(graph)
    visited: dict[Location, set[Time]] = {location: set() for location in outgoing}
    walking = deque(live)
    while walking:
        location, time = walking.popleft()
        domain = graph.nesting(location).domain
        if any(domain.less_equal(earlier, time) for earlier in visited[location]):
            continue
        visited[location].add(time)
        for step in outgoing[location]:
            arrival = step.summary.results_in(time)
            if arrival is not None:
                walking.append((step.end, arrival))
    return {location: minimal_times(graph.nesting(location).domain, times) for location, times in visited.items()}


def arrivals_by(path: PathSummary, times: Sequence[Time]) -> Arrivals:
    """Return when each of ``times`` arrives by ``path``."""
    return tuple(path.results_in(time) for time in times)


def minimal_arrivals(graph: GraphShape, start: Location) -> dict[Location, set[Arrivals]]:
    """Return, for each location, when the probing times at ``start`` arrive by each of the minimal walks.

    Takes every walk of as many steps as there are locations, times the coordinates at the deepest. That is enough: a
    minimal walk passes a location again only to forget a further coordinate.
    """
    outgoing = steps_from(graph)
    depth = max(graph.nesting(location).depth for location in outgoing)
    found: dict[Location, set[Arrivals]] = {location: set() for location in outgoing}
    walks = {(start, tuple(probing_times(graph.nesting(start))))}
    for _ in range((depth + 1) * len(outgoing) + 1):
        for location, arrivals in walks:
            found[location].add(arrivals)
        walks = {
            (step.end, tuple(None if time is None else step.summary.results_in(time) for time in arrivals))
            for location, arrivals in walks
            for step in outgoing[location]
        }
        walks = {(location, arrivals) for location, arrivals in walks if arrivals not in found[location]}
    return {
        location: {
            one
            for one in ways
            if not any(other != one and _all_less_equal(graph.nesting(location).domain, other, one) for other in ways)
        }
        for location, ways in found.items()
    }


def _all_less_equal(domain: TimeDomain, a: Arrivals, b: Arrivals) -> bool:
    return all(y is None or (x is not None and domain.less_equal(x, y)) for x, y in zip(a, b, strict=True))


def simple_cycles(graph: GraphShape) -> Iterator[tuple[Step, ...]]:
    """Iterate over the cycles that pass no location twice, each once."""
    outgoing = steps_from(graph)
    order = {location: number for number, location in enumerate(outgoing)}

    def extend(path: tuple[Step, ...], root: Location, passed: frozenset[Location]) -> Iterator[tuple[Step, ...]]:
        for step in outgoing[path[-1].end if path else root]:
            if step.end == root:
                yield (*path, step)
            elif order[step.end] > order[root] and step.end not in passed:
                yield from extend((*path, step), root, passed | {step.end})

    for root in outgoing:
        yield from extend((), root, frozenset())


def is_idle(graph: GraphShape, cycle: Sequence[Step]) -> bool:
    """Tell whether some time comes round ``cycle`` unchanged: after a first round, that a second changes no more."""
    for time in probing_times(graph.nesting(cycle[0].start)):
        once = _around(cycle, time)
        if once is not None and _around(cycle, once) == once:
            return True
    return False


def _around(cycle: Sequence[Step], time: Time) -> Time | None:
    for step in cycle:
        if time is not None:
            time = step.summary.results_in(time)
    return time


def sources(graph: GraphShape) -> list[Source]:
    """Return every output port of a graph."""
    return [location for location in graph.locations() if isinstance(location, Source)]


def is_kept(tracker: Tracker, location: Location) -> bool:
    """Tell whether a tracker keeps the frontier of a location."""
    return tracker._compiled.index[location] in tracker._reach.asked
