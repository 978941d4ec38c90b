"""One worker of a dataflow, without I/O: it receives envelopes, runs operators, and returns envelopes.

Invariants:

- One call of `step` is one scheduling step: operators with work run, each at most once, in the order of description.
  All their changes of pointstamps form one indivisible batch.
- The batch is sent after the operators have run: together with the messages that it counts, or later if it is held
  back.
- No clock, thread, randomness or socket: the same envelopes in the same order cause the same steps.

Source: seed "Progress Tracking", section "Maintaining Capabilities"; seed "Timestamp tokens", section 3.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidewheel.batches.batches import Batch
from tidewheel.host.sigterm import Terminated
from tidewheel.progress import Accumulated, Broadcast, CompiledGraph, Location, Spread, SpreadName, Time, Tracker
from tidewheel.runtime.description.declared import declared_substreams
from tidewheel.runtime.description.plan import Plan, checked_schedule
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.messages.credit import DEFAULT_BYTES_IN_FLIGHT
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.messages.feeder_status import FeederStatus
from tidewheel.runtime.messages.questions import Questions
from tidewheel.runtime.messages.statistics import WorkerStatistics
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.state.saved_worker import WorkerBeginning
from tidewheel.runtime.tokens.token_ledger import Leak, LeakPolicy, TokenLedger
from tidewheel.runtime.worker.agenda import Agenda
from tidewheel.runtime.worker.failure import operator_failure, raise_refusal, raise_step_failure
from tidewheel.runtime.worker.flow_control import FlowControl, Intake
from tidewheel.runtime.worker.mailbox import Mailbox
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.operator_host import Closing, OperatorHost, ProbeWatch, Saving
from tidewheel.runtime.worker.ordered_inbox import OrderedInbox
from tidewheel.runtime.worker.outbox import Outbox
from tidewheel.runtime.worker.ports import waiting_at
from tidewheel.runtime.worker.wiring import wire
from tidewheel.runtime.worker.worker_memory import WorkerMemory
from tidewheel.runtime.worker.worker_substreams import WorkerSubstreams

_LOGGER = logging.getLogger(__name__)


class WorkerCore(OperatorHost):
    """Runs one worker's share of every operator of a plan.

    Args:
        wake: called from any thread after a use of a token, to wake the worker.
        hold_back: if False, progress is sent at the end of every step, even if that moves no frontier.

    Attributes:
        leaks: the last 100 leaked tokens.
    """

    def __init__(  # noqa: PLR0913 - the settings of a shell, one by one
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
        on_leak: LeakPolicy = "fail",
        beginning: WorkerBeginning | None = None,
        is_tracked: bool = False,
        run: str = "",
    ) -> None:
        self.plan, self.clock, self.worker, self.workers = plan, clock, worker, workers
        self.ledger = TokenLedger(wake)
        graph = plan.graph(workers)
        self._compiled = CompiledGraph(graph)
        self._tracker = Tracker(self._compiled, workers, plan.locations_of_interest(graph, worker))
        # A single worker has no peers to tell.
        spread = Accumulated if progress == "accumulated" and workers > 1 else Broadcast
        self._progress: Spread = spread(self._tracker, worker, workers, hold_back=hold_back)
        self._frontiers, self.flow = {}, FlowControl(worker, workers, bytes_in_flight)
        self._inbox, self.intake = OrderedInbox[Envelope](), Intake()
        self._steps, self._to_release = 0, 1
        self.outbox = Outbox(worker, workers, incarnation)
        self.agenda = Agenda(clock, wake)
        self.activate = self.agenda.activate
        self.probes = ProbeWatch(plan, self._compiled, self)
        self.closing, self.questions = Closing(), Questions(self.activate)
        self.saving = Saving(beginning.number if beginning is not None else 0, are_taken=is_tracked, run=run)
        self.received, self.shared, self.doors = None, {}, {}
        self.leaks, self._leaked_by, self._on_leak = list[Leak](), Counter[str](), on_leak
        self.feeder_statuses: deque[tuple[int, FeederStatus]] = deque()
        declared = declared_substreams(plan, self._compiled)
        self._instances, self._edges = wire(self, plan, self._compiled, declared, attachments or {})
        self._ports = {port.location: port for instance in self._instances for port in instance.inputs}
        saved = beginning.substreams if beginning is not None and beginning.number else None
        self._substreams = WorkerSubstreams(self, self._compiled, declared, self._instances, saved)
        for operator in plan.inputs.values():
            self._instances[operator].mailbox = Mailbox(self.intake)
        self.memory = WorkerMemory(
            self, plan, self._compiled, self._instances, self._substreams, beginning, is_tracked=is_tracked
        )
        self._build(attachments or {}, nodes or [""] * workers)

    def _build(self, attachments: Mapping[str, Any], nodes: Sequence[str]) -> None:
        for operator, instance in zip(self.plan.operators, self._instances, strict=True):
            instance.attachments = attachments
            instance.begin()
            self.memory.prepare(instance)
            try:
                if operator.stages:
                    instance.use_stages(operator.stages)
                else:
                    instance.schedule = checked_schedule(operator.build(OperatorContext(self, instance, nodes)))
                self.memory.built(instance)
            except Terminated:
                raise
            except (Exception, SystemExit, GeneratorExit) as error:
                self.closing.close()
                raise operator_failure(instance.name, self.worker, None, error, "could not be built") from error
            finally:
                instance.discard_initial_tokens()
            self.activate(instance.number)

    def receive(self, envelope: Envelope) -> None:
        """Receive an envelope from a peer or a feeder.

        It takes effect once all earlier envelopes of its sender have arrived.

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
        if envelope.snapshot != self.memory.cut.settled:
            self.memory.arrives(envelope)
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
            mailbox = self._instances[operator].mailbox
            assert mailbox is not None, "each input has one"
            mailbox.put(envelope.sender, command)
            self.activate(operator)
        self.saving.hear(envelope.saved, self.activate)
        self.questions.put(envelope.question)
        if isinstance(envelope.status, FeederStatus):
            self.feeder_statuses.append((envelope.sender, envelope.status))
            if envelope.status.is_leaving:
                self.memory.feeder_leaves(envelope.sender, envelope.snapshot)

    def step(self) -> list[tuple[int, Envelope]]:
        """Run the operators that have work once; return the envelopes for the peers, as (worker number, envelope).

        Raises:
            JobError: an operator raised, dropped a token, or sent outside its schedule function; the error names the
                operator, this worker and the time. The core is then unusable.
        """
        self._steps += 1
        self.ledger.begin_step()
        self.agenda.begin()
        may_be_cut = not self.agenda.was_cut  # else an operator that always has much to send lets no other run
        while not (may_be_cut and self.outbox.is_full) and (index := self.agenda.pop()) is not None:
            instance = self._instances[index]
            if self.flow.is_held and not instance.inputs and not instance.mailbox:
                self.agenda.held.add(index)
                continue
            try:
                if instance.run():
                    self.activate(index)
                if instance.mailbox:
                    self.agenda.held.add(index)
            except Terminated:
                raise
            except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - not the driver's KeyboardInterrupt
                raise_step_failure(instance.name, self.worker, instance.time, error, self.ledger.refusals)
        self.agenda.end()
        self.ledger.stepping = None
        self.count_tokens()
        if self.ledger.refusals:
            raise_refusal(self.worker, self.ledger.refusals.popleft())
        while self.ledger.leaks:
            self._leaked(self.ledger.leaks.popleft())
        self.received = None
        committed = self._progress.commit()
        self._frontiers_moved(committed.moved)
        news = self.books.commit(out_of_work=self.agenda.is_empty)
        self._let_sources_go_on()
        credit = self.flow.drain() if self.flow.is_due else {}
        return self.outbox.envelopes(committed.batches, credit, news, self.books.heard, *self.memory.mark())

    def _leaked(self, leak: Leak) -> None:
        self.leaks = [*self.leaks[-99:], leak]
        self._leaked_by[leak.operator] += 1
        said = leak.describe(self.worker)
        if self._on_leak == "fail":
            hint = "RuntimeConfig(on_leak='warn') only logs this"
            raise JobError(f"{said}. {hint}", operator=leak.operator, worker=self.worker, time=leak.time)
        _LOGGER.warning("%s", said, extra={"operator": leak.operator, "worker": self.worker})

    def _let_sources_go_on(self) -> None:
        if not self.flow.is_held:
            self._to_release = 1
            if self.agenda.held:
                self.agenda.let_go()

    def release(self) -> bool:
        """Count some unread messages as received, at each input; return whether there were any.

        Call this if sources wait and nothing else happens, since an operator may be waiting for records of a waiting
        source. Each call counts twice as many messages as the previous call, until sources go on. Messages to an
        operator that expects a thread are left out, since it will read them after the thread's work.
        """
        released = [
            port.release(self._to_release)
            for location, port in self._ports.items()
            if not self.agenda.expected.get(self._compiled.locations[location].operator)
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

    def count_tokens(self) -> None:
        if not self.ledger.is_empty:
            self._progress.record(self.ledger.drain())
            self._substreams.record_tokens(self.ledger.labelled)

    def captured(self, name: str) -> list[tuple[Time, Batch]]:
        """Return this worker's batches of a capture, as (time, batch) in order of arrival."""
        return self._instances[self.plan.captures[name]].kept.captured

    def location(self, number: int) -> Location:
        return self._compiled.locations[number]

    def view(self) -> dict[tuple[int, Time], int]:
        """Return this worker's counts of all pointstamps, by (location number, time)."""
        return dict(self._tracker.counts())

    def report(self) -> WorkerReport:
        """Return the report for `Job.explain` and `Job.statistics`. Call this only between steps."""
        plan, kept = self.plan, [instance.kept for instance in self._instances]
        return WorkerReport(
            self.worker,
            self._progress.knowledge().together(self._compiled.together),
            self.ledger.tokens(),
            Counter(token._stamp for one in kept for notificator in one.notificators for token in notificator.tokens),
            scheduled=self.agenda.scheduled(),
            statistics=WorkerStatistics(
                self.worker,
                self._steps,
                self._progress.batches_sent,
                self._progress.changes_sent,
                self.outbox.progress_bytes,
                self._leaked_by.total(),
                self.flow.load,
                dict(part for instance in self._instances for part in instance.statistics()),
                tuple(edge.statistics(plan.describe(start), plan.describe(end)) for start, end, edge in self._edges),
            ),
            open_substreams=self._substreams.open_substreams(),
            expected=self.agenda.awaited(),
            asked=self.agenda.asked(),
            waits_for={instance.number: instance.waits_for for instance in self._instances if instance.waits_for},
            leaked=self._leaked_by.copy(),
            connectors={one.name: one.connector() for one in self._instances if one.connector is not None},
            **self.memory.sizes.look(kept),
            **waiting_at(self._ports.values(), self._compiled.together),
        )

    def running(self) -> BusyWorker:
        """Return which operator is running, and for how long; thread-safe."""
        if (number := self.agenda.running) < 0:
            return BusyWorker(self.worker)
        instance = self._instances[number]
        return BusyWorker(self.worker, instance.name, instance.time, self.clock() - instance.started)

    @property
    def is_idle(self) -> bool:
        if not (self.agenda.is_empty and self.ledger.is_empty):
            return False
        return not (self._progress.is_due or self.flow.is_due or self.books.is_due or self.memory.marker is not None)

    def forget(self, feeder: int) -> None:
        self._inbox.forget(feeder)
        self.intake.taken.pop(feeder, None)

    def heard(self, feeder: int) -> int:
        return self._inbox.accepted(feeder)

    @property
    def steps_at_rest(self) -> int | None:
        """Return the number of steps; None if an operator is scheduled or expects a thread."""
        return None if self.agenda.scheduled() else self._steps

    @property
    def is_complete(self) -> bool:
        """True if this worker knows that no more work can come, and has no work left."""
        is_over = self._tracker.is_complete and self.is_idle and self.books.is_over
        return is_over and not any(self._instances[operator].has_more_work for operator in self.agenda.expected)
