"""The observer, which sees everything, and checks after every event that what was promised of progress holds."""

from collections.abc import Sequence

from tests.kit.simulation.violation import ViolationError
from tests.simulation.scenario import LifeOptions
from tests.simulation.workers.frontier_watch import FrontierWatch
from tests.simulation.workers.reports import AccumulatedReports, BroadcastReports, Reports
from tests.simulation.workers.truth import Shown, Truth
from tests.simulation.workers.watch import Sent, Watch
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.transport.socket_address import DRIVER


class Observer(Watch):
    """Compares what workers know with what there is.

    Args:
        life: how many workers there are, and how progress travels.
        plan: the plan that the workers run.
        cores: the workers, just made.
        shown: the tokens that there are, for each worker.
        books: whether to check what workers report; without, only what comes of it is checked.
    """

    def __init__(
        self, life: LifeOptions, plan: Plan, cores: Sequence[WorkerCore], shown: Sequence[Shown], *, books: bool
    ) -> None:
        self._cores = cores
        self._truth = Truth(plan.graph(len(cores)), cores, shown)
        self._watch = FrontierWatch(plan, cores, self._truth)
        self._reports: Reports | None = None
        if books:
            accumulated = life.progress == "accumulated" and life.workers > 1
            kind = AccumulatedReports if accumulated else BroadcastReports
            self._reports = kind(cores, self._truth.initial, hold_back=life.hold_back)
        self._watch.check_start()

    def stepped(self, worker: int, sent: Sent) -> None:
        """Check a step, and what it returned."""
        for receiver, envelope in sent:
            self._truth.sent(worker, receiver, envelope.messages)
        done = self._truth.recount(worker)
        if self._reports is not None:
            self._reports.stepped(worker, done, sent)
        self._check_knowledge(worker)

    def arrived(self, sender: int, receiver: int, envelope: Envelope) -> None:
        """Check what an envelope has done to its receiver."""
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
        self._watch.check_exact("liveness")
        for worker, core in enumerate(self._cores):
            if not core.is_complete:
                raise ViolationError("liveness", f"nothing is left, and worker {worker} does not know: {core.view()}")
