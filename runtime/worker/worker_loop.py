"""The thread that runs one worker: it sleeps until something arrives, steps, sends, and reports its progress."""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pickle import PicklingError
from typing import Any

from tidewheel.progress import ProtocolError
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.engines.runtime_config import RuntimeConfig
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.actor_death import watch_actor
from tidewheel.runtime.inputs.feed import WORKER_THREAD
from tidewheel.runtime.inputs.feeders import Feeders
from tidewheel.runtime.worker.envelope import Envelope
from tidewheel.runtime.worker.flow_control import UNTOLD_PARTS
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.runtime.worker.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.worker.worker_status import Phase, WorkerStatus
from tidewheel.transport.errors import PeerLost
from tidewheel.transport.link import Receiver, Sender
from tidewheel.transport.pickling import unpicklable
from tidewheel.transport.socket_address import DRIVER

_LOGGER = logging.getLogger(__name__)
_LINK_CHECK_S = 1.0
_STALLED_S = 0.2
_BEAT_LATE_S = 2.0


class WorkerLoop:
    """Runs a worker core on a thread of its own, so that calls from outside are answered while operators run.

    Args:
        plan, worker, workers, attachments, incarnation, nodes: as for `WorkerCore`.
        sender: carries envelopes to the peers.
        receiver: takes what the peers and the driver send.
        config: how the job runs.
        changed: guards the status, and is notified when it changes.
        tells_driver: whether ``sender`` reaches the driver, so that the loop sends it each new status.

    Attributes:
        feeders: the other processes that feed the dataflow, those that were told to this worker.
    """

    def __init__(  # noqa: PLR0913 - as many as the core has, and the link
        self,
        plan: Plan,
        worker: int,
        workers: int,
        attachments: Mapping[str, Any],
        sender: Sender[Envelope],
        receiver: Receiver[Envelope],
        incarnation: int,
        config: RuntimeConfig,
        *,
        changed: threading.Condition | None = None,
        nodes: Sequence[str] | None = None,
        tells_driver: bool = False,
    ) -> None:
        self.tells_driver = tells_driver
        self._incarnation = incarnation
        self._sender = sender
        self._receiver = receiver
        self._worker = worker
        self._changed = changed if changed is not None else threading.Condition()
        self._confirming = 0
        self._forgotten: deque[int] = deque()
        self.feeders = Feeders(config.hang_timeout_s + _BEAT_LATE_S, time.monotonic, watch_actor)
        self._stopping = False
        self._leaving = False
        self._closing = threading.Lock()
        self._next_check = 0.0
        self._status = WorkerStatus(0, Phase.RUNNING)
        self._thread = threading.Thread(target=self._run, name=f"{WORKER_THREAD}{worker}", daemon=True)
        self._reports_wanted = 0
        self._reports_made = 0
        self._last_report: WorkerReport | None = None
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
        )
        self._untold_limit = max(1, config.bytes_in_flight // UNTOLD_PARTS)
        self._told = 0

    # ------------------------------------------------------------------ from any thread

    def start(self) -> None:
        """Begin to step. Idempotent."""
        if self._thread.ident is None:
            self._thread.start()

    def deliver(self, envelope: Envelope) -> None:
        """Take an envelope that came by a call; the loop wakes up for it."""
        self._receiver.deliver(envelope)

    @property
    def status(self) -> WorkerStatus:
        """How far it has come."""
        return self._status

    def watch(self, seen: int, timeout: float) -> WorkerStatus:
        """Return the status once its version is not ``seen``, after ``timeout`` seconds in any case."""
        with self._changed:
            self._changed.wait_for(lambda: self._status.version != seen, timeout)
            return self._status

    def forget(self, feeder: int) -> None:
        """Forget a feeder that will not send any more."""
        self._forgotten.append(feeder)
        self._receiver.wake()

    def confirm(self, feeder: int, count: int, timeout: float) -> bool | None:
        """Return whether so many envelopes of a feeder have come; wait for that ``timeout`` seconds at most.

        None says that the loop has not been started.
        """
        if self._thread.ident is None:
            return None
        with self._changed:
            self._confirming += 1
            try:
                return (
                    self._changed.wait_for(lambda: self._core.heard(feeder) >= count or self._has_failed, timeout)
                    and not self._has_failed
                )
            finally:
                self._confirming -= 1

    @property
    def _has_failed(self) -> bool:
        return self._status.phase is Phase.FAILED

    def captured(self, name: str) -> list[tuple[Any, Any]]:
        """Return what was captured so far."""
        return list(self._core.captured(name))

    def report(self, timeout: float) -> WorkerReport | BusyWorker:
        """Return what the worker knows and has done between two steps; what it is busy with if that takes too long.

        Args:
            timeout: in seconds.
        """
        with self._changed:
            self._reports_wanted += 1
            wanted = self._reports_wanted
            self._receiver.wake()
            if self._thread.ident is None or not self._thread.is_alive():
                return self._full_report()
            if self._changed.wait_for(lambda: self._reports_made >= wanted, timeout):
                assert self._last_report is not None
                return self._last_report
        return self._core.running()

    def running(self) -> BusyWorker:
        """Return which operator runs now, and since when."""
        return self._core.running()

    def label(self) -> str:
        """Return what to put before what the running operator prints; empty if none runs, or on another thread."""
        if threading.get_ident() != self._thread.ident:
            return ""
        operator = self._core.running().operator
        return "" if operator is None else f"[{operator}] "

    def stop(self) -> None:
        """Let the thread end after the step that is under way."""
        self._stopping = True
        self._receiver.wake()

    def close(self, timeout: float) -> bool:
        """Stop, and let go of the link; return False if the step that is under way did not end within ``timeout`` s.

        Then it lets go when that ends.
        """
        self._leaving = True
        self.stop()
        if self._thread.ident is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                return False
        self._core.closing.close()
        self._let_go()
        return True

    def _let_go(self) -> None:
        with self._closing:
            self._sender.close()
            self._receiver.close()

    def _wake(self) -> None:
        if threading.get_ident() != self._thread.ident:
            self._receiver.wake()

    # ------------------------------------------------------------------ on the loop's thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._step()
                self._report_progress()
                self._wait_for_work()
        except (JobError, ProtocolError) as error:
            self._report(Phase.FAILED, error)
        except PeerLost as lost:
            self._report(Phase.FAILED, JobError(str(lost), worker=lost.worker))
        except BaseException as error:
            _LOGGER.exception("worker %d failed outside its operators", self._worker)
            failure = JobError(f"worker {self._worker} failed: {type(error).__name__}: {error}", worker=self._worker)
            self._report(Phase.FAILED, failure)
        finally:
            self._core.closing.close()
            if self._reports_made < self._reports_wanted:
                self._make_report()
            if self._leaving:
                self._let_go()

    def _wait_for_work(self) -> None:
        while not self._stopping:
            if self._reports_made < self._reports_wanted:
                self._make_report()
            while self._forgotten:
                self._core.forget(self._forgotten.popleft())
            now = time.monotonic()
            if now >= self._next_check:
                self._next_check = now + _LINK_CHECK_S
                self._sender.check()
                self.feeders.check()
            arrived = self._arrived()
            for envelope in arrived:
                self._core.receive(envelope)
            if self._confirming:
                with self._changed:
                    self._changed.notify_all()
            if not arrived and self._core.flow.is_held and time.monotonic() - now >= _STALLED_S and self._core.is_idle:
                self._core.release()
            if not self._core.is_idle:
                break
            if arrived:  # of several peers' progress only the last may leave anything to do
                self._report_progress()

    def _arrived(self) -> list[Envelope]:
        try:
            if not self._core.is_idle:
                return self._receiver.receive(0.0)
            longest_s = _STALLED_S if self._core.flow.is_held else _LINK_CHECK_S
            left_s = self._core.timers.left_s()
            return self._receiver.receive(longest_s if left_s is None else min(longest_s, left_s))
        except ProtocolError as error:
            message = f"worker {self._worker} could not take what was sent to it: {error}"
            raise JobError(message, worker=self._worker) from error

    def _full_report(self) -> WorkerReport:
        fed, feeders = self.feeders.statistics(), self.feeders.processes()
        return replace(self._core.report(), fed=fed, feeders=feeders) if fed or feeders else self._core.report()

    def _make_report(self) -> None:
        """Report to those who wait for it; no step is under way."""
        with self._changed:
            self._last_report = self._full_report()
            self._reports_made = self._reports_wanted
            self._changed.notify_all()

    def _step(self) -> None:
        for peer, envelope in self._core.step():
            try:
                self._sender.send(peer, envelope)
            except (TypeError, AttributeError, PicklingError) as error:
                raise self._unsendable(envelope, error) from None

    def _unsendable(self, envelope: Envelope, error: Exception) -> JobError:
        """Find the message that cannot be pickled."""
        for message in envelope.messages:
            reason = unpicklable(message)
            if reason is not None:
                plan, at = self._core.plan, self._core.location(message.target)
                return JobError(
                    f"worker {self._worker}: a record on its way to {plan.describe(at)} at time {message.time!r} "
                    f"cannot be pickled, so it cannot go to another worker: {reason}",
                    operator=plan.name_at(at),
                    worker=self._worker,
                    time=message.time,
                )
        return JobError(f"worker {self._worker} cannot send an envelope: {error}", worker=self._worker)

    def _report_progress(self) -> None:
        self._report(Phase.COMPLETE if self._core.is_complete else Phase.RUNNING)

    def _report(self, phase: Phase, failure: Exception | None = None) -> None:
        moved = self._core.probes.drain_moved()
        before = self._status
        intake = self._core.intake
        if before.phase is phase and not moved and intake.total - self._told < self._untold_limit:
            return
        self._told = intake.total
        probes = {**before.probes, **{name: tuple(self._core.probes.frontier(name)) for name in moved}}
        with self._changed:
            self._status = WorkerStatus(before.version + 1, phase, probes, intake.by_feeder(), failure)
            self._changed.notify_all()
        if self.tells_driver:
            self._tell_driver(self._status)

    def _tell_driver(self, status: WorkerStatus) -> None:
        """Send the driver a status; sending the failure of this worker does not fail again."""
        try:
            self._sender.send(DRIVER, Envelope(self._worker, self._incarnation, status.version, status=status))
        except PeerLost as error:
            if status.failure is None:
                raise
            _LOGGER.warning("worker %d cannot tell the driver why it has failed: %s", self._worker, error)
        except (TypeError, AttributeError, PicklingError):
            if status.failure is None:
                raise
            text = JobError(str(status.failure), worker=self._worker)  # without what cannot be pickled, such as a time
            self._tell_driver(WorkerStatus(status.version, Phase.FAILED, failure=text))
