"""The observer, who sees everything, and checks after every event that what was promised holds."""

from collections.abc import Sequence

from tests.kit.simulation.violation import ViolationError
from tests.simulation.frontier_watch import FrontierWatch
from tests.simulation.reports import AccumulatedReports, BroadcastReports, Reports
from tests.simulation.scenario import Scenario
from tests.simulation.truth import Truth
from tests.simulation.world import World
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.transport.socket_address import DRIVER


class Observer:
    """Told of every event after it has happened; raises `ViolationError` when a promise is broken.

    Args:
        scenario: what is simulated.
        plan: the plan that the workers run.
        cores: the workers, just made.
        world: where the operators show their tokens.
        books: whether to check what workers report; without, only what comes of it is checked.
    """

    def __init__(
        self, scenario: Scenario, plan: Plan, cores: Sequence[WorkerCore], world: World, *, books: bool = True
    ) -> None:
        self._cores = cores
        self._world = world
        self._truth = Truth(plan.graph(len(cores)), cores, world)
        self._watch = FrontierWatch(plan, cores, self._truth)
        self._reports: Reports | None = None
        if books:
            accumulated = scenario.progress == "accumulated" and scenario.workers > 1
            kind = AccumulatedReports if accumulated else BroadcastReports
            self._reports = kind(cores, self._truth.initial, hold_back=scenario.hold_back)
        self._watch.check_start()

    def stepped(self, worker: int, sent: Sequence[tuple[int, Envelope]]) -> None:
        """Check a step, and what it returned."""
        for receiver, envelope in sent:
            self._truth.sent(worker, receiver, envelope.messages)
        done = self._truth.recount(worker)
        if self._reports is not None:
            self._reports.stepped(worker, done, sent)
        self._check_knowledge(worker)

    def delivered(self, sender: int, receiver: int) -> None:
        """Check what the oldest envelope of a link has done to its receiver."""
        if sender > DRIVER:
            self._truth.delivered(sender, receiver)
            if self._reports is not None:
                self._reports.delivered(sender, receiver)
        self._check_knowledge(receiver)

    def _check_knowledge(self, worker: int) -> None:
        self._watch.check_moves(worker)
        if self._cores[worker].is_complete and any(True for _ in self._truth.live()):
            raise ViolationError("safety", f"worker {worker} says that all is complete, and something is live")

    def used_outside(self, worker: int, *, woken: bool) -> None:
        """Check that a worker was woken and has something to do, after a token was used between two of its steps."""
        before = self._truth.at(worker)
        self._truth.recount(worker)
        if self._truth.at(worker) != before and (self._cores[worker].is_idle or not woken):
            raise ViolationError("idle", f"a token of worker {worker} was used between two steps, and it sleeps on")

    def check_quiet(self) -> None:
        """Check, when nothing is on its way and nobody has anything to do, that each worker knows what is true."""
        self._watch.check_exact("quiet")

    def check_end(self) -> None:
        """Check, when nothing is on its way, that nothing is left, and that every worker knows."""
        left = list(self._truth.live())
        if left:
            core = self._cores[0]
            found = ", ".join(f"{time!r} at {core.plan.describe(core.location(location))}" for location, time in left)
            raise ViolationError("liveness", f"at the end there is still {found}")
        self._world.mail.check_end()
        self._watch.check_exact("liveness")
        for worker, core in enumerate(self._cores):
            if not core.is_complete:
                raise ViolationError("liveness", f"nothing is left, and worker {worker} does not know: {core.view()}")
            if core.leaks != self._world.leaks[worker]:
                raise ViolationError(
                    "leaks", f"worker {worker} reports {core.leaks}, leaked were {self._world.leaks[worker]}"
                )
