"""The state of a running job, combined from the reports of its workers.

The view of one worker lacks changes that other workers hold back. Together with all changes that are unsent or in
flight, it is complete.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tidewheel.progress import Antichain, ChangeBatch, CompiledGraph, Location, PathSummary, Target, Time, Tracker
from tidewheel.progress.cycles import strong_components
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.plan import OperatorPlan, Plan
from tidewheel.runtime.messages.statistics import JobStatistics
from tidewheel.runtime.messages.worker_report import BusyWorker, OpenSubstreams, WorkerReport


@dataclass(frozen=True, slots=True)
class Reach:
    """A pointstamp with a positive count, and one path by which it can arrive at a location.

    Attributes:
        path: the summary of the path; ``route`` has the operators on it, as statistics name them.
    """

    location: int
    time: Time
    path: PathSummary
    route: tuple[str, ...]
    arrives: Time


@dataclass(frozen=True, slots=True)
class _Way:
    """The path from a location to some end: ``location`` is its start, ``onward`` the index of the rest in a list."""

    location: int
    path: PathSummary
    onward: int


class JobView:
    """The pointstamps of a whole job at one moment, and the frontier at every location.

    Args:
        answers: the reports of the workers. Of a busy worker, the view knows only the changes that others have
            received.

    Attributes:
        live: the number of tokens and messages, by (location number, time).
        queued: for each pointstamp, the waiting messages of each worker.
        kept: by location, time and worker, the tokens that an operator has kept although a call could have ended them;
            known after several reports.
    """

    def __init__(self, plan: Plan, compiled: CompiledGraph, answers: Sequence[WorkerReport | BusyWorker]) -> None:
        self.plan = plan
        self.compiled = compiled
        self.reports = [answer for answer in answers if isinstance(answer, WorkerReport)]
        self.busy = [answer for answer in answers if isinstance(answer, BusyWorker)]
        self.tokens = by_worker({report.worker: report.tokens for report in self.reports})
        self.awaited = by_worker({report.worker: report.awaited for report in self.reports})
        self.queued = by_worker({report.worker: report.queued for report in self.reports})
        self.held = by_worker({report.worker: report.held for report in self.reports})
        self.kept: frozenset[tuple[int, Time, int]] = frozenset()
        self.live = self._live()
        # Without any answer, it is only sure that nothing comes before the minimum time.
        self._everywhere = Tracker(compiled, 0 if self.reports else 1, compiled.locations)
        self._everywhere.update(self.live.items())
        self._views: dict[int, Tracker] = {}

    def substreams_of(self, operator: int) -> list[OpenSubstreams]:
        names = [name for name, declared in self.plan.declarations.items() if declared.operator == operator]
        return [one for report in self.reports for one in report.open_substreams if one.name in names]

    def open_substreams(self) -> list[str]:
        notes = []
        for name in dict.fromkeys(one.name for report in self.reports for one in report.open_substreams):
            found = [one for report in self.reports for one in report.open_substreams if one.name == name]
            most = max(found, key=lambda one: one.count)
            if most.count:
                notes.append(
                    f"substreams {name!r} of {most.count} key(s) are open, such as {', '.join(most.keys)}. "
                    "They end with end_substream(...), their last record, or the end of the stream"
                )
            if any(one.waiting for one in found):
                notes.append(
                    f"substreams {name!r}: {max(one.waiting for one in found)} key(s) that are used again wait until "
                    "nothing is left of the substreams that had them before. An operator that is told of ends must "
                    "look at input.ended, and must not keep its tokens until a later time is complete"
                )
        return notes

    def _live(self) -> dict[tuple[int, Time], int]:
        if not self.reports:
            return {}
        first, *others = self.reports
        counts: ChangeBatch[tuple[int, Time]] = ChangeBatch(first.knowledge.counts.items())
        for report in others:
            counts.extend(first.knowledge.with_peer(report.worker, report.knowledge))
        live = {pointstamp: count for pointstamp, count in counts if count > 0}
        if not self.busy:  # then tokens are known exactly
            live = {stamp: count for stamp, count in live.items() if not self.is_source(stamp[0])}
            live.update({stamp: sum(holders.values()) for stamp, holders in self.tokens.items()})
        return live

    def is_source(self, location: int) -> bool:
        return isinstance(self.compiled.locations[location], Source)

    def frontier(self, location: Location) -> Antichain:
        return self._everywhere.frontier(location)

    def has_heard(self, worker: int, port: Target) -> bool:
        """Tell whether a worker knows the present frontier at an input.

        If not, the worker will run the operator again.
        """
        return self.heard(worker, port) == self.frontier(port)

    def heard(self, worker: int, port: Target) -> Antichain:
        """Return the frontier at an input, as a worker that has answered knows it.

        The worker's unsent changes are left out: when nothing runs, they could not move a frontier.
        """
        view = self._views.get(worker)
        if view is None:
            [knowledge] = [report.knowledge for report in self.reports if report.worker == worker]
            counts: ChangeBatch[tuple[int, Time]] = ChangeBatch(knowledge.counts.items())
            counts.extend((stamp, -difference) for stamp, difference in knowledge.unsent)
            view = self._views[worker] = Tracker(self.compiled, 0, self.plan.notified())
            view.update(counts)
        return view.frontier(port)

    # ------------------------------------------------------------------ tokens and the frontiers that they hold

    def holding(self, end: Location) -> Iterator[Reach]:
        """Yield, for each element of the frontier at ``end``, the pointstamps that can arrive at that time.

        Complexity: one search of the graph before ``end``, the pointstamps, and the lengths of the routes.
        """
        frontier = self.frontier(end)
        trail = self._ways_to(self.compiled.index[end])
        minimal: dict[int, list[int]] = {}
        for place, way in enumerate(trail):
            kept = (other for other in minimal.get(way.location, ()) if not way.path.less_equal(trail[other].path))
            minimal[way.location] = [*kept, place]
        found: list[tuple[Time, Time, int]] = []
        for location, time in self.live:
            arrivals: dict[Time, int] = {}
            for place in minimal.get(location, ()):
                arrivals.setdefault(trail[place].path.results_in(time), place)
            found += [(time, arrives, place) for arrives, place in arrivals.items() if arrives in frontier]
        known: dict[int, tuple[str, ...]] = {}
        routes = {place: self._route(trail, place, known) for place in sorted(place for _, _, place in found)}
        for time, arrives, place in found:
            yield Reach(trail[place].location, time, trail[place].path, routes[place], arrives)

    def _ways_to(self, end: int) -> list[_Way]:
        trail = [_Way(end, PathSummary.identity(self.compiled.graph.nesting(self.compiled.locations[end])), -1)]
        known: dict[int, list[PathSummary]] = {end: [trail[0].path]}
        for place, way in enumerate(trail):  # the loop extends the list
            for start, step in self.compiled.incoming[way.location]:
                path = step.followed_by(way.path)
                shorter = known.setdefault(start, [])
                if path is not None and not any(other.less_equal(path) for other in shorter):
                    shorter.append(path)
                    trail.append(_Way(start, path, place))
        return trail

    def is_first(self, location: int, time: Time) -> bool:
        """Tell whether no other pointstamp can cause this one.

        Then the pointstamps at earlier locations can arrive here only at later times. A pointstamp does not cause
        itself, since cycles advance times.
        """
        less_equal = self.compiled.domains[location].less_equal
        here = self.frontier(self.compiled.locations[location])
        if any(earlier != time and less_equal(earlier, time) for earlier in here):
            return False
        return not any(less_equal(arrives, time) for _, _, _, arrives in self._arriving(location))

    def first_holding(self, end: Target, seen: set[tuple[int, Time]]) -> Iterator[Reach]:
        """Yield the first causes that hold back the frontier at an input, with one path for each.

        The search follows elements of frontiers backwards. Calls that share ``seen`` visit each location only once for
        each element of its frontier.
        """
        number = self.compiled.index[end]
        unchanged = PathSummary.identity(self.compiled.graph.nesting(end))
        for target in self.frontier(end):
            trail, times = [_Way(number, unchanged, -1)], [target]
            for place, way in enumerate(trail):  # the loop extends the list
                location, time = way.location, times[place]
                if (location, time) in seen:
                    continue
                seen.add((location, time))
                before = [(start, step, at) for start, step, at, then in self._arriving(location) if then == time]
                for start, step, at in before:
                    path = step.followed_by(way.path)
                    assert path is not None, "a time passes it"
                    trail.append(_Way(start, path, place))
                    times.append(at)
                if not before and (location, time) in self.live:
                    yield Reach(location, time, way.path, self._route(trail, place, {}), target)

    def is_alone_before(self, location: int, time: Time, ports: Iterable[Target]) -> bool:
        """Tell whether a pointstamp is in a loop, and no other can reach the inputs ``ports``.

        Complexity: in a loop, the size of the graph before the inputs, and the pointstamps.
        """
        if location not in self._in_loops:
            return False
        before = [self.compiled.index[port] for port in ports]
        known = set(before)
        for place in before:  # the loop extends the list
            new = {start for start, _ in self.compiled.incoming[place]} - known
            known |= new
            before += new
        return all(stamp == (location, time) for stamp in self.live if stamp[0] in known)

    def _arriving(self, location: int) -> Iterator[tuple[int, PathSummary, Time, Time]]:
        for start, step in self.compiled.incoming[location]:
            for time in self.frontier(self.compiled.locations[start]):
                arrives = step.results_in(time)
                if arrives is not None:
                    yield start, step, time, arrives

    @cached_property
    def _in_loops(self) -> frozenset[int]:
        component = strong_components(range(len(self.compiled.locations)), self.compiled.successors)
        size = Counter(component.values())
        return frozenset(number for number, of in component.items() if size[of] > 1)

    def _route(self, trail: list[_Way], place: int, known: dict[int, tuple[str, ...]]) -> tuple[str, ...]:
        passed: list[tuple[str, ...]] = []
        start = place
        while place >= 0 and place not in known:
            passed.append(self._passed(trail[place]))
            place = trail[place].onward
        rest = (*(name for names in passed for name in names), *known.get(place, ()))
        known[start] = rest
        at = self.compiled.locations[trail[start].location]
        return (
            (self.plan.name_at(at), *rest) if isinstance(at, Source) and self.plan.name_at(at) not in rest[:1] else rest
        )

    def _passed(self, way: _Way) -> tuple[str, ...]:
        at = self.compiled.locations[way.location]
        if isinstance(at, Source):
            return ()
        stages = self.plan.operators[at.operator].stages if way.onward >= 0 else ()
        return tuple(stage.name for stage in stages) or (self.plan.name_at(at),)

    # ------------------------------------------------------------------ finished work

    def statistics(self) -> JobStatistics:
        frontiers: dict[str, tuple[Time, ...]] = {}
        for number, operator in enumerate(self.plan.operators):
            frontier = self.operator_frontier(number, operator)
            for part in operator.stages or (operator,):
                frontiers[part.name] = frontier
        workers = (
            replace(
                report.statistics,
                operators={
                    name: replace(one, frontier=frontiers[name]) for name, one in report.statistics.operators.items()
                },
            )
            for report in self.reports
        )
        return JobStatistics(tuple(workers), tuple(worker.worker for worker in self.busy))

    def operator_frontier(self, number: int, operator: OperatorPlan) -> tuple[Time, ...]:
        """Return the earliest times that an operator can still receive or, without inputs, send."""
        shape = operator.shape
        ports: Sequence[Location] = [Target(number, port) for port in range(len(shape.inputs))]
        if not ports:
            ports = [Source(number, port) for port in range(len(shape.outputs))]
        times = dict.fromkeys(time for port in ports for time in self.frontier(port))
        nestings = list(map(self.compiled.graph.nesting, ports))
        one_scope = all(nesting == nestings[0] for nesting in nestings)
        return tuple(Antichain(nestings[0].domain, times)) if nestings and one_scope else tuple(times)


def by_worker(counts: Mapping[int, Mapping[tuple[int, Time], int]]) -> dict[tuple[int, Time], dict[int, int]]:
    found: dict[tuple[int, Time], dict[int, int]] = {}
    for worker, counted in counts.items():
        for pointstamp, count in counted.items():
            found.setdefault(pointstamp, {})[worker] = count
    return found
