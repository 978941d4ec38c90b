"""What is true of a running job, put together from what each of its workers says.

No single view will do: it lacks what other workers hold back. The sum of what one worker knows and of what all others
have not sent yet, or what is under way from them, has everything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidewheel.progress import Antichain, ChangeBatch, CompiledGraph, Location, Source, Target, Time, Tracker
from tidewheel.runtime.plan import OperatorPlan, Plan
from tidewheel.runtime.statistics import JobStatistics
from tidewheel.runtime.worker_report import BusyWorker, WorkerReport


class JobView:
    """The pointstamps of a whole job at one moment, and the frontier at every location.

    Args:
        plan: the dataflow.
        compiled: its compiled graph.
        answers: what each worker said; one that was busy in an operator is known by what the others heard of it.

    Attributes:
        live: how many tokens and messages there are, by (location number, time).
        tokens: for each pointstamp of a token, how many each worker holds.
        queued: for each pointstamp of a message, how many wait on each worker.
        busy: the workers that did not answer.
    """

    def __init__(self, plan: Plan, compiled: CompiledGraph, answers: Sequence[WorkerReport | BusyWorker]) -> None:
        self.plan = plan
        self.compiled = compiled
        self.reports = [answer for answer in answers if isinstance(answer, WorkerReport)]
        self.busy = [answer for answer in answers if isinstance(answer, BusyWorker)]
        self.tokens = _by_worker({report.worker: report.tokens for report in self.reports})
        self.queued = _by_worker({report.worker: report.queued for report in self.reports})
        self.live = self._live()
        # If nobody answers, all that is sure is that nothing comes before the minimum time.
        everywhere = Tracker(compiled, 0 if self.reports else 1, compiled.locations)
        everywhere.update(self.live.items())
        self._everywhere = everywhere

    def _live(self) -> dict[tuple[int, Time], int]:
        """Add to what one worker knows what the others have done that it has not heard of."""
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
        """Tell whether a location is an output, where tokens live."""
        return isinstance(self.compiled.locations[location], Source)

    def frontier(self, location: Location) -> Antichain:
        """Return the earliest times that can still occur at a location."""
        return self._everywhere.frontier(location)

    def statistics(self) -> JobStatistics:
        """Return what the workers have done, with the frontier of each operator."""
        frontiers: dict[str, tuple[Time, ...]] = {}
        for number, operator in enumerate(self.plan.operators):
            frontier = self._operator_frontier(number, operator)
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

    def _operator_frontier(self, number: int, operator: OperatorPlan) -> tuple[Time, ...]:
        shape = operator.shape
        ports: Sequence[Location] = [Target(number, port) for port in range(len(shape.inputs))]
        if not ports:
            ports = [Source(number, port) for port in range(len(shape.outputs))]
        times = dict.fromkeys(time for port in ports for time in self.frontier(port))
        nestings = list(map(self.compiled.graph.nesting, ports))
        one_scope = all(nesting == nestings[0] for nesting in nestings)
        return tuple(Antichain(nestings[0].domain, times)) if nestings and one_scope else tuple(times)


def _by_worker(counts: Mapping[int, Mapping[tuple[int, Time], int]]) -> dict[tuple[int, Time], dict[int, int]]:
    found: dict[tuple[int, Time], dict[int, int]] = {}
    for worker, counted in counts.items():
        for pointstamp, count in counted.items():
            found.setdefault(pointstamp, {})[worker] = count
    return found
