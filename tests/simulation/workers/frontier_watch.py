"""Checks every frontier that a worker keeps, whenever it moves, against what can really still happen."""

from collections.abc import Callable, Collection, Sequence

from tests.kit.simulation.violation import ViolationError
from tests.simulation.workers.possible_times import Pointstamp, PossibleTimes
from tests.simulation.workers.truth import Truth
from tidewheel.progress import Antichain, Time
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.worker.ports import InputPort
from tidewheel.runtime.worker.worker_core import WorkerCore


class FrontierWatch:
    """Remembers the last frontier of every probe and every notifying input on every worker.

    A frontier that did not move needs no look: what can still happen only becomes less.
    """

    def __init__(self, plan: Plan, cores: Sequence[WorkerCore], truth: Truth) -> None:
        graph = plan.graph(len(cores))
        locations = list(graph.locations())
        numbers = {location: number for number, location in enumerate(locations)}
        self._truth = truth
        self._possible = PossibleTimes(graph)
        self._allowed = PossibleTimes(graph, endless=True)
        self._describe = [graph.describe(location) for location in locations]
        probes = [(numbers[source], probe_frontier(name)) for name, source in plan.probes.items()]
        ports = [[numbers[graph.target(at.operator, at.port, one.worker)] for at in plan.notified()] for one in cores]
        self._kept = [[*((number, port_frontier(number)) for number in own), *probes] for own in ports]
        self._cores = cores
        self._last: list[list[Antichain]] = [
            [read(core) for _, read in kept] for core, kept in zip(cores, self._kept, strict=True)
        ]

    def check_start(self) -> None:
        """Check that each worker starts with the frontiers that follow from what all know."""
        self._check_exact("start", self._truth.initial)

    def check_moves(self, worker: int) -> None:
        """Check the frontiers of a worker that an event may have moved."""
        core, last = self._cores[worker], self._last[worker]
        possible: list[list[Time]] | None = None
        for index, (number, read) in enumerate(self._kept[worker]):
            frontier, before = read(core), last[index]
            if frontier is before or frontier == before:
                continue
            last[index] = frontier
            if not before.dominates(frontier):
                self._fail("frontier", worker, number, f"it went back from {before} to {frontier}")
            if possible is None:
                possible = self._possible.after(self._truth.live())
            self._check_safe(worker, number, frontier, possible[number])

    def check_exact(self, check: str) -> None:
        """Check, when nothing is on its way, that each worker knows of each location exactly what is true there."""
        self._check_exact(check, list(self._truth.live()))

    def _check_exact(self, check: str, live: Collection[Pointstamp]) -> None:
        possible, allowed = self._possible.after(live), self._allowed.after(live)
        for worker, core in enumerate(self._cores):
            for number, read in self._kept[worker]:
                frontier = read(core)
                self._check_safe(worker, number, frontier, possible[number])
                if not Antichain(frontier.domain, allowed[number]).dominates(frontier):
                    self._fail(check, worker, number, f"it is {frontier}, true is {possible[number]}")

    def _check_safe(self, worker: int, number: int, frontier: Antichain, possible: Sequence[Time]) -> None:
        for time in possible:
            if not frontier.less_equal(time):
                self._fail("safety", worker, number, f"it is {frontier}, but {time!r} can still occur there")

    def _fail(self, check: str, worker: int, number: int, message: str) -> None:
        raise ViolationError(check, f"the frontier of worker {worker} at {self._describe[number]}: {message}")


def port_frontier(number: int) -> Callable[[WorkerCore], Antichain]:
    """Return what reads the frontier of an input port as its operator does."""
    return lambda core: InputPort(core._ports[number]).frontier


def probe_frontier(name: str) -> Callable[[WorkerCore], Antichain]:
    """Return what reads the frontier of a probe as a job does."""
    return lambda core: core.probes.frontier(name)
