"""One worker of a dataflow, without I/O: envelopes in, envelopes out, and in between the operators run.

Invariants:

- One call of `step` is one scheduling step: each operator that has something to do runs at most once, in the order in
  which the dataflow was described, and all that happened is one indivisible change of this worker's pointstamps.
- It leaves after the operators have acted, in the envelope of the messages it speaks of or, held back, in a later one.
- No clock, thread, randomness or socket: the same envelopes in the same order give the same steps.

Source: seed "Progress Tracking", section "Maintaining Capabilities"; seed "Timestamp tokens", section 3.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tidewheel.progress import (
    Accumulated,
    Antichain,
    Broadcast,
    CompiledGraph,
    Location,
    Spread,
    SpreadName,
    Time,
    Tracker,
)
from tidewheel.runtime.description.plan import Plan, checked_schedule
from tidewheel.runtime.explaining.statistics import WorkerStatistics
from tidewheel.runtime.inputs.feeders import FeederStatus
from tidewheel.runtime.inputs.mailbox import Intake, Mailbox
from tidewheel.runtime.substreams.worker_substreams import WorkerSubstreams
from tidewheel.runtime.tokens.token_ledger import Leak, TokenLedger
from tidewheel.runtime.worker.activator import Activator
from tidewheel.runtime.worker.agenda import Agenda
from tidewheel.runtime.worker.closing import Closing
from tidewheel.runtime.worker.envelope import Envelope
from tidewheel.runtime.worker.failure import operator_failure, raise_step_failure
from tidewheel.runtime.worker.flow_control import DEFAULT_BYTES_IN_FLIGHT, FlowControl
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.operator_instance import WorkerHooks
from tidewheel.runtime.worker.outbox import Outbox
from tidewheel.runtime.worker.probe_watch import ProbeWatch
from tidewheel.runtime.worker.timers import Timers
from tidewheel.runtime.worker.wiring import wire
from tidewheel.runtime.worker.worker_report import (
    BusyWorker,
    WorkerReport,
    awaited_by,
    edges_of,
    held_at,
    operators_of,
    unread_at,
)
from tidewheel.transport.batches import Batch
from tidewheel.transport.ordered_inbox import OrderedInbox

_LOGGER = logging.getLogger(__name__)


class WorkerCore:
    """Runs one worker's share of every operator of a plan.

    Args:
        plan: the dataflow.
        worker: the number of this worker.
        workers: how many workers there are.
        attachments: this worker's handles of the dataflow's attachments.
        wake: called from any thread when a token was used, in case the worker sleeps.
        incarnation: grows when a worker restarts; peers refuse a mixture.
        progress: how workers tell each other what happened to their pointstamps; the same for all.
        hold_back: False sends progress at the end of every step, though it may move no frontier.
        bytes_in_flight: how many bytes this worker may answer for before sources wait.
        clock: returns seconds, from any start; for statistics only.
        nodes: where the workers are, as `OperatorContext` has it.

    Attributes:
        probes: the frontiers at the probes.
        leaks: the tokens that were collected as garbage while live, so far.
        feeder_statuses: those that have come and that the shell has not received, by the feeder's number.
    """

    def __init__(  # noqa: PLR0913 - what a shell decides, one by one
        self,
        plan: Plan,
        worker: int,
        workers: int,
        attachments: Mapping[str, Any] | None = None,
        wake: Callable[[], None] = lambda: None,
        incarnation: int = 0,
        *,
        progress: SpreadName = "broadcast",
        hold_back: bool = True,
        bytes_in_flight: int = DEFAULT_BYTES_IN_FLIGHT,
        clock: Callable[[], float] = lambda: 0.0,
        nodes: Sequence[str] | None = None,
    ) -> None:
        self.plan = plan
        self.worker = worker
        self.workers = workers
        self._clock = clock
        self.ledger = TokenLedger(wake)
        self._compiled = CompiledGraph(plan.graph())
        self._tracker = Tracker(self._compiled, workers, plan.locations_of_interest(workers))
        # One worker has nobody to tell.
        spread = Accumulated if progress == "accumulated" and workers > 1 else Broadcast
        self._progress: Spread = spread(self._tracker, worker, workers, hold_back=hold_back)
        self.flow = FlowControl(worker, workers, bytes_in_flight)
        self._inbox: OrderedInbox[Envelope] = OrderedInbox()
        self.intake = Intake()
        self._mailboxes = {operator: Mailbox(self.intake) for operator in plan.inputs.values()}
        self._to_release = 1
        self.outbox = Outbox(worker, workers, incarnation)
        self._frontiers: dict[int, Antichain] = {}
        self.probes = ProbeWatch(plan, self._compiled, self.activate, self.frontier)
        self._agenda = Agenda(self.ledger.wake)
        self.timers = Timers(clock, self.ledger.wake)
        self.closing = Closing()
        self.leaks: list[Leak] = []
        self.feeder_statuses: deque[tuple[int, FeederStatus]] = deque()
        self._steps = 0
        self._instances, self._edges = wire(self, plan, self._compiled, clock)
        self._ports = {port.location: port for instance in self._instances for port in instance.inputs}
        self._substreams = WorkerSubstreams(self, plan, self._compiled, self._instances)
        self.books = self._substreams.books
        self._build(attachments or {}, nodes or [""] * workers)

    def _build(self, attachments: Mapping[str, Any], nodes: Sequence[str]) -> None:
        for index, (operator, instance) in enumerate(zip(self.plan.operators, self._instances, strict=True)):
            instance.begin()
            instance.flow, instance.attachments = self.flow, attachments
            instance.mailbox, instance.gate = self._mailboxes.get(index), self._substreams.gates.get(index)
            instance.hooks = WorkerHooks(
                Activator(partial(self._agenda.activate_later, index), partial(self.timers.set, index)),
                partial(self.closing.add, instance.name),
                partial(self._agenda.expect, index, at_work=bool(instance.inputs)),
                partial(self.probes.follow, index),
                partial(self._substreams.mark_ends, instance),
            )
            try:
                instance.schedule = checked_schedule(operator.build(OperatorContext(instance, self.worker, nodes)))
            except (Exception, SystemExit, GeneratorExit) as error:
                self.closing.close()
                raise operator_failure(instance.name, self.worker, None, error, "could not be built") from error
            finally:
                instance.discard_initial_tokens()
            self._agenda.activate(index)

    def receive(self, envelope: Envelope) -> None:
        """Take an envelope from a peer or the driver; what is in it takes effect once all before it has come.

        Raises:
            ProtocolError: an envelope was lost or comes from another incarnation of its sender.
        """
        ready = self._inbox.accept(envelope.sender, envelope.incarnation, envelope.sequence, envelope)
        for ordered in ready:
            self._take_in(ordered)
        self._let_sources_go_on()

    def _take_in(self, envelope: Envelope) -> None:
        if self._substreams.holds_back(envelope):
            return
        self._apply(envelope)
        if envelope.substreams is not None:
            for early in self._substreams.hear(envelope.substreams):
                self._take_in(early)

    def _apply(self, envelope: Envelope) -> None:
        for message in envelope.messages:
            self._ports[message.target].put(message)
            self.activate(self._compiled.locations[message.target].operator)
        if envelope.credit is not None:
            self.flow.receive(envelope.sender, envelope.credit)
        if envelope.progress:
            self._frontiers_moved(self._progress.receive(envelope.sender, envelope.progress))
        for command in envelope.commands:
            operator = self.plan.inputs[command.input]
            self._mailboxes[operator].put(envelope.sender, command)
            self.activate(operator)
        if isinstance(envelope.status, FeederStatus):
            self.feeder_statuses.append((envelope.sender, envelope.status))

    def step(self) -> list[tuple[int, Envelope]]:
        """Run what there is to run once, and return the envelopes for the peers, as (worker number, envelope).

        Raises:
            JobError: an operator raised; it names the operator, this worker and the time. The core must not be used
                again.
        """
        self._steps += 1
        for late in self.timers.pop_due():
            self._agenda.activate(late)
        self._agenda.begin()
        while (index := self._agenda.pop()) is not None:
            instance = self._instances[index]
            if self.flow.is_held and not instance.inputs and not instance.mailbox:
                self._agenda.hold(index)
                continue
            try:
                if instance.run():
                    self.activate(index)
                if instance.mailbox:
                    self._agenda.hold(index)
            except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - not the driver's KeyboardInterrupt
                raise_step_failure(instance.name, self.worker, instance.time, error)
        self.count_tokens()
        for leak in self.ledger.drain_leaks() if self.ledger.has_leaks else ():
            self.leaks.append(leak)
            _LOGGER.warning("worker %d: %s", self.worker, leak.describe())
        committed = self._progress.commit()
        self._frontiers_moved(committed.moved)
        news = self._substreams.commit(out_of_work=self._agenda.is_empty)
        self._let_sources_go_on()
        credit = self.flow.drain() if self.flow.is_due else {}
        return self.outbox.envelopes(committed.batches, credit, news, self.books.heard)

    def _let_sources_go_on(self) -> None:
        if not self.flow.is_held:
            self._to_release = 1
            if self._agenda.has_held:
                self._agenda.let_go()

    def release(self) -> bool:
        """Count messages that operators have left unread as taken, at each input; return whether there were any.

        For shells, where sources are held back and nothing else happens: an operator may be waiting for what a source
        that is held back would send. Each call takes twice as many as the one before, until sources go on. Messages to
        an operator that another thread is at work for are not counted: that will have it read on.
        """
        released = [
            port.release(self._to_release)
            for location, port in self._ports.items()
            if not self._agenda.is_at_work(self._compiled.locations[location].operator)
        ]
        if any(released):
            self._to_release *= 2
        self._let_sources_go_on()
        return any(released)

    def _frontiers_moved(self, locations: set[int]) -> None:
        for number in locations:
            self._frontiers.pop(number, None)
            self.probes.moved(number)
            if number in self._ports:
                self.activate(self._compiled.locations[number].operator)

    def activate(self, operator: int) -> None:
        """Schedule an operator: still in this step if its turn has not passed, else in the next."""
        self._agenda.activate(operator)

    def produce(self, location: int, time: Time) -> None:
        """Count a message on its way to an input port."""
        self._progress.record_one(location, time, 1)

    def consume(self, location: int, time: Time) -> None:
        """Count a message as received at an input port."""
        self._progress.record_one(location, time, -1)

    def count_tokens(self) -> None:
        """Take note of what has happened to tokens."""
        if not self.ledger.is_empty:
            self._progress.record(self.ledger.drain())
            self._substreams.record_tokens(self.ledger.labelled)

    def frontier(self, location: int) -> Antichain:
        """Return the frontier at a location where one is kept."""
        found = self._frontiers.get(location)
        if found is None:
            found = self._frontiers[location] = self._tracker.frontier(self._compiled.locations[location])
        return found

    def captured(self, name: str) -> list[tuple[Time, Batch]]:
        """Return what this worker captured under ``name``, as (time, batch) in order of arrival."""
        return self._instances[self.plan.captures[name]].captured

    def location(self, number: int) -> Location:
        """Return a location by its number."""
        return self._compiled.locations[number]

    def view(self) -> dict[tuple[int, Time], int]:
        """Return the counts of all pointstamps, by (location number, time), as far as this worker knows."""
        return dict(self._tracker.counts())

    def unreported(self) -> dict[tuple[int, Time], int]:
        """Return what this worker has not told its peers: its own changes, and what it adds up for others."""
        return dict(self._progress.unsent())

    def report(self) -> WorkerReport:
        """Return what this worker knows and has done, for `Job.explain` and `Job.statistics`; between steps only."""
        return WorkerReport(
            self.worker,
            self._progress.knowledge(),
            self.ledger.tokens(),
            awaited_by(self._instances),
            unread_at(self._ports.values()),
            self._agenda.scheduled(),
            WorkerStatistics(
                self.worker,
                self._steps,
                self._progress.batches_sent,
                self._progress.changes_sent,
                self.outbox.progress_bytes,
                len(self.leaks),
                self.flow.load,
                dict(part for instance in self._instances for part in operators_of(instance)),
                edges_of(self._edges, self.plan),
            ),
            self._substreams.open_substreams(),
            held_at(self._ports.values()),
        )

    def running(self) -> BusyWorker:
        """Return which operator runs now and since when; from any thread."""
        number = self._agenda.running
        if number < 0:
            return BusyWorker(self.worker)
        instance = self._instances[number]
        return BusyWorker(self.worker, instance.name, instance.time, self._clock() - instance.started)

    @property
    def is_idle(self) -> bool:
        """Whether a step would do nothing."""
        if not (self._agenda.is_empty and self.ledger.is_empty):
            return False
        return not (self._progress.is_due or self.flow.is_due or self.books.is_due or self.timers.left_s() == 0.0)

    @property
    def expected(self) -> Mapping[int, bool]:
        """The operators that another thread is going to activate; True if they are at work on what they received."""
        return self._agenda.expected

    def forget(self, feeder: int) -> None:
        """Forget a feeder that will not send any more; between steps only."""
        self._inbox.forget(feeder)
        self.intake.taken.pop(feeder, None)

    def heard(self, feeder: int) -> int:
        """Return how many envelopes of a feeder have come, without a gap."""
        return self._inbox.accepted(feeder)

    @property
    def steps_at_rest(self) -> int | None:
        """How many steps it has taken; None if an operator is to be scheduled, or another thread is at work for one."""
        return None if self._agenda.scheduled() else self._steps

    @property
    def is_complete(self) -> bool:
        """Whether nothing can ever occur again, as far as this worker knows, and it has acted on that."""
        return self._tracker.is_complete and self.is_idle and self._substreams.is_over
