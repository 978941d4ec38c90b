"""The thread that runs one worker: it sleeps until envelopes arrive, runs steps, sends, and reports its progress."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pickle import PicklingError
from typing import Any, TypeAlias

from tidewheel.host.log_lines import about
from tidewheel.host.process_memory import process_use
from tidewheel.progress import CompiledGraph, ProtocolError
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.explaining.explainer import PAUSED, Explainer, explicable
from tidewheel.runtime.explaining.job_view import JobView
from tidewheel.runtime.inputs.door import Door
from tidewheel.runtime.inputs.feed import WORKER_THREAD
from tidewheel.runtime.inputs.feeders import Feeders
from tidewheel.runtime.messages.credit import UNTOLD_PARTS
from tidewheel.runtime.messages.envelope import ENVELOPES, Envelope, uncounted_bytes
from tidewheel.runtime.messages.feeder_status import FeederStatus, Phase, WorkerStatus
from tidewheel.runtime.messages.questions import Answer, Question
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.snapshots.parts_in_background import PartsInBackground
from tidewheel.runtime.snapshots.worker_snapshots import WorkerSnapshots
from tidewheel.runtime.state.saved_worker import WorkerBeginning
from tidewheel.runtime.worker.failure import unsendable
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.transport.frames import unpicklable
from tidewheel.transport.link import PeerLost, Receiver, Sender
from tidewheel.transport.ray_link import Mail
from tidewheel.transport.socket_address import DRIVER, SocketAddress

_LOGGER = logging.getLogger(__name__)
_LINK_CHECK_S = 1.0
_STALLED_S = 0.2
_BEAT_LATE_S = 2.0
_ANSWER_LEAVES_WITHIN_S = 1.0
_STAYS_S = 60.0

Connect: TypeAlias = Callable[[Mapping[int, SocketAddress]], Sender[Envelope]]
"""Called with the address at which each member listens; returns the sender to them."""


class WorkerLoop:
    """Runs a worker core on its own thread, so that the actor can answer calls while operators run."""

    def __init__(  # noqa: PLR0913 - those of the core, and the link
        self,
        plan: Plan,
        worker: int,
        workers: int,
        attachments: Mapping[str, Any],
        sender: Sender[Envelope],
        receiver: Receiver[Envelope],
        connect: Connect,
        *,
        incarnation: int,
        config: RuntimeConfig,
        nodes: Sequence[str] | None = None,
        snapshots: WorkerSnapshots | None = None,
        beginning: WorkerBeginning | None = None,
    ) -> None:
        self.incarnation = incarnation
        self._sender = sender
        self._receiver = receiver
        self._connect = connect
        self._worker = worker
        self.mail = Mail(ENVELOPES)
        self._routes: dict[int, Sender[Envelope]] = {}
        self._stopping = self._leaving = self._started = False
        self._closing = threading.Lock()
        self._next_check, self._status = 0.0, WorkerStatus(Phase.RUNNING)
        self._statuses_sent = self._told = 0
        self._thread = threading.Thread(target=self._run, name=f"{WORKER_THREAD}{worker}", daemon=True)
        self._asked: deque[Future[WorkerReport]] = deque()
        self._questions: deque[tuple[Question, Future[Answer] | None]] = deque()
        self._answers: dict[int, Future[Answer]] = {}
        self._staying: dict[int, tuple[float, Question]] = {}
        self._core = WorkerCore(
            plan,
            worker,
            workers,
            attachments,
            self._wake,
            incarnation,
            progress=config.progress,
            bytes_in_flight=config.bytes_in_flight,
            clock=time.perf_counter,
            nodes=nodes,
            on_leak=config.on_leak,
            beginning=beginning,
            is_tracked=snapshots is not None,
            run="" if snapshots is None else snapshots.run,
        )
        begun = self._told_snapshot = self._core.memory.cut.number
        self.feeders = Feeders(config.hang_timeout_s + _BEAT_LATE_S, time.monotonic, snapshot=begun)
        self._core.memory.feeders_in = self.feeders.begin_snapshot
        self._parts = None if snapshots is None else PartsInBackground(snapshots.writer(), self._receiver.wake)
        self._untold_limit = max(1, config.bytes_in_flight // UNTOLD_PARTS)
        self._thread.start()

    # ------------------------------------------------------------------ from any thread

    def start(self) -> None:
        """Begin to run steps; idempotent. Before that, the loop only receives and answers."""
        _LOGGER.debug("worker %d of %d starts %r", self._worker, self._core.workers, self._core.plan.name)
        self._started = True
        self._receiver.wake()

    def deliver(self, envelope: Envelope) -> None:
        self._receiver.deliver(envelope)

    def captured(self, name: str) -> list[tuple[Any, Any]]:
        return list(self._core.captured(name))

    def report(self, timeout_s: float) -> WorkerReport | BusyWorker:
        """Return a report made between two steps; the running operator if no step ends within ``timeout_s`` seconds."""
        asked: Future[WorkerReport] = Future()
        self._asked.append(asked)
        self._receiver.wake()
        if not self._thread.is_alive():
            return self._full_report()
        try:
            return asked.result(timeout_s)
        except TimeoutError:
            return self._core.running()

    @property
    def doors(self) -> Mapping[str, Door]:
        return self._core.doors

    @property
    def is_saved(self) -> bool:
        """Whether the job keeps snapshots."""
        return self._parts is not None

    @property
    def plan(self) -> Plan:
        return self._core.plan

    def ask(self, question: Question, within_s: float) -> Answer | None:
        """Return the answer to a question of a process other than the driver; None if it does not come in time.

        The worker forgets unanswered questions, and after a while those with ``stays``, since the asking process may
        have died. If ``keys`` is None, the worker only forgets the question.
        """
        if question.keys is None:
            self._put_question(question, None)
            return None
        answer: Future[Answer] = Future()
        self._put_question(question, answer)
        try:
            return answer.result(within_s)
        except TimeoutError:
            self._put_question(Question(question.number, question.operator), None)
            return None

    def _put_question(self, question: Question, answer: Future[Answer] | None) -> None:
        self._questions.append((question, answer))
        self._receiver.wake()

    def state(self) -> tuple[str, str]:
        """Return, in words, the worker's state and the progress of probes, without waiting for a step."""
        status = self._status
        probes = [f"{name}: {', '.join(map(repr, at)) or 'ended'}" for name, at in sorted(status.probes.items())]
        return status.phase.name.lower() if self._started else "paused", "; ".join(probes)

    def explain(self, name: str, answers: Sequence[WorkerReport | BusyWorker]) -> str:
        """Explain in words what holds back a probe, topic or capture, from the reports of all workers.

        Raises:
            JobError: nothing has that name.
        """
        plan = self._core.plan
        if name not in explicable(plan):
            raise JobError(
                f"dataflow {plan.name!r} has no probe, topic or capture {name!r}; it has {sorted(explicable(plan))}"
            )
        view = JobView(plan, CompiledGraph(plan.graph()), answers)
        return str(Explainer(view, None, () if self._started else (PAUSED,)).explain(name))

    def running(self) -> BusyWorker:
        return self._core.running()

    def here(self) -> BusyWorker | None:
        """Return the operator running on the calling thread; None on other threads."""
        return self._core.running() if threading.get_ident() == self._thread.ident else None

    def stop(self) -> None:
        self._stopping = True
        self._receiver.wake()

    def close(self, timeout_s: float) -> bool:
        """Stop and disconnect; return False if the present step did not end within ``timeout_s`` seconds.

        In that case the loop disconnects when the step ends.
        """
        self._leaving = True
        self.stop()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        self._core.closing.close()
        self._let_go()
        return True

    def _let_go(self) -> None:
        with self._closing:
            for sender in (*self._routes.values(), self._sender):
                sender.close()
            self._receiver.close()

    def _wake(self) -> None:
        if threading.get_ident() != self._thread.ident:
            self._receiver.wake()

    # ------------------------------------------------------------------ on the loop's thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                if self._started:
                    self._step()
                    self._report_progress()
                self._wait_for_work()
        except (JobError, ProtocolError) as error:
            # As text, the error contains nothing that cannot be pickled, such as a user's time.
            text = JobError(str(error), worker=self._worker)
            self._report(Phase.FAILED, error if unpicklable(error) is None else text)
        except PeerLost as lost:
            self._report(Phase.FAILED, JobError(str(lost), worker=lost.worker))
        except BaseException as error:
            _LOGGER.exception("worker %d failed outside its operators", self._worker, extra=about(worker=self._worker))
            failure = JobError(f"worker {self._worker} failed: {type(error).__name__}: {error}", worker=self._worker)
            self._report(Phase.FAILED, failure)
        finally:
            self._core.closing.close()
            if self._parts is not None:
                self._parts.close()
            self._answer()
            if self._leaving:
                self._let_go()

    def _wait_for_work(self) -> None:
        while not self._stopping:
            self._answer()
            self._take_questions()
            self._core.questions.tell(self._tell_answer)
            now = time.monotonic()
            if now >= self._next_check:
                self._next_check = now + _LINK_CHECK_S
                self._check_links()
                self._forget_questions(now)
            arrived = self._arrived()
            for envelope in arrived:
                self._core.receive(envelope)
                while self._core.feeder_statuses:
                    self._hear(*self._core.feeder_statuses.popleft())
            if self._parts is not None:
                self._write_parts(self._parts)
            if not arrived and self._core.flow.is_held and time.monotonic() - now >= _STALLED_S and self._core.is_idle:
                self._core.release()
            if self._has_work:
                break
            if arrived:  # if progress of several peers arrives, perhaps only the last makes work
                self._report_progress()

    def _take_questions(self) -> None:
        while self._questions:
            question, answer = self._questions.popleft()
            self._answers.pop(question.number, None)
            self._staying.pop(question.number, None)
            if answer is not None:
                self._answers[question.number] = answer
                if question.stays:
                    self._staying[question.number] = (time.monotonic() + _STAYS_S, question)
            self._core.questions.put(question)

    def _tell_answer(self, answer: Answer) -> None:
        asked = self._answers.pop(answer.number, None)
        if asked is None:
            self._tell(DRIVER, steps=self._core.steps_at_rest, answer=answer)
        else:
            asked.set_result(answer)

    def _forget_questions(self, now: float) -> None:
        for until, question in list(self._staying.values()):
            if now >= until:
                del self._staying[question.number]
                self._core.questions.put(Question(question.number, question.operator))

    def _write_parts(self, parts: PartsInBackground) -> None:
        while self._core.memory.parts:
            parts.write(self._core.memory.parts.popleft())
        while parts.written:
            written = parts.written.popleft()
            if written.failure is not None:
                self._core.memory.write_all_next()
            self._tell(DRIVER, written=written)

    @property
    def _has_work(self) -> bool:
        return self._started and not self._core.is_idle

    def _check_links(self) -> None:
        self._sender.check()
        for member, route in list(self._routes.items()):
            try:
                route.check()
            except PeerLost as lost:
                if member == DRIVER:
                    raise
                self.feeders.lose(member, str(lost))  # only worker 0 knows the feeder, and fails
                self._routes.pop(member).close()
        self.feeders.check()

    def _hear(self, feeder: int, status: FeederStatus) -> None:
        if feeder not in self._routes:
            self._routes[feeder] = self.mail if status.address is None else self._connect({feeder: status.address})
        self.feeders.hear(feeder, status)
        self._tell(feeder, steps=self._core.steps_at_rest)
        if status.is_leaving:
            self._core.forget(feeder)
            self._routes.pop(feeder).close(_ANSWER_LEAVES_WITHIN_S)

    def _arrived(self) -> list[Envelope]:
        try:
            if self._has_work:
                return self._receiver.receive(0.0)
            longest_s = _STALLED_S if self._core.flow.is_held else _LINK_CHECK_S
            left_s = self._core.agenda.left_s()
            return self._receiver.receive(longest_s if left_s is None else min(longest_s, left_s))
        except ProtocolError as error:
            message = f"worker {self._worker} could not take what was sent to it: {error}"
            raise JobError(message, worker=self._worker) from error

    def _full_report(self) -> WorkerReport:
        fed, feeders = self.feeders.statistics(), self.feeders.processes()
        return replace(self._core.report(), fed=fed, feeders=feeders, process=process_use())

    def _answer(self) -> None:
        while self._asked:
            self._asked.popleft().set_result(self._full_report())

    def _step(self) -> None:
        for peer, envelope in self._core.step():
            try:
                sent = self._sender.send(peer, envelope)
                self._core.flow.add(uncounted_bytes(envelope, sent))
            except (TypeError, AttributeError, PicklingError) as error:
                raise unsendable(self._worker, self._core.plan, self._core.location, envelope, error) from None

    def _report_progress(self) -> None:
        self._report(Phase.COMPLETE if self._core.is_complete else Phase.RUNNING)

    def _report(self, phase: Phase, failure: Exception | None = None) -> None:
        core, before = self._core, self._status
        moved, total = core.probes.drain_moved(), core.intake.total
        snapshot, awaits = core.memory.cut.number, core.saving.awaited(has_ended=True)
        is_same = before.phase is phase and not moved and snapshot == self._told_snapshot and awaits == before.awaits
        if is_same and total - self._told < self._untold_limit:
            return
        self._told, self._told_snapshot = total, snapshot
        probes = {**before.probes, **{name: tuple(self._core.probes.frontier(name)) for name in moved}}
        self._status = WorkerStatus(phase, probes, failure, awaits=awaits)
        if _LOGGER.isEnabledFor(logging.DEBUG):
            received = sum(edge.records for edge in self._core.report().statistics.edges)
            said = (self._worker, self._core.plan.name, *self.state(), received)
            _LOGGER.debug("worker %d, %r: %s; reached: %s; %d records passed between its operators", *said)
        for feeder in self._routes:
            self._tell(feeder)

    def _tell(self, feeder: int, **more: Any) -> None:
        taken, heard = self._core.intake.taken.get(feeder, 0), self._core.heard(feeder)
        status = replace(self._status, taken=taken, heard=heard, **more)
        self._statuses_sent += 1
        try:
            snapshot = self._core.memory.cut.number
            envelope = Envelope(self._worker, self.incarnation, self._statuses_sent, status=status, snapshot=snapshot)
            self._routes[feeder].send(feeder, envelope)
        except PeerLost as error:
            if status.failure is None:
                raise
            said = "worker %d cannot tell why it has failed: %s"
            _LOGGER.warning(said, self._worker, error, extra=about(worker=self._worker))
