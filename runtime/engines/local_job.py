"""The local engine: any number of workers in this process, without threads or Ray. All runs are the same."""

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from tidewheel.host.attachment import Attachment, AttachmentHost
from tidewheel.host.log_lines import about
from tidewheel.host.process_memory import process_use
from tidewheel.progress import TidewheelError
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.engines.captured import Captured, CapturedBatches
from tidewheel.runtime.engines.job import Job, end_with_program
from tidewheel.runtime.engines.local_feed import LocalFeed
from tidewheel.runtime.engines.running_jobs import LOCAL_JOBS
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.snapshots.job_snapshots import JobSnapshots
from tidewheel.runtime.snapshots.part_writer import PartWriter
from tidewheel.runtime.snapshots.worker_snapshots import WorkerSnapshots
from tidewheel.runtime.state.saved_worker import WorkerBeginning
from tidewheel.runtime.worker.worker_core import WorkerCore

_QUIET_S, _SOON_S = 0.2, 0.02

Answer = TypeVar("Answer")


class LocalRounds:
    """The dataflows of one process that run together, in the order in which they were added."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._members: list[LocalJob] = []
        self._sleepers: list[SimpleQueue[None]] = []
        self._asked: deque[tuple[Callable[[], Any], Future[Any]]] = deque(maxlen=20)

    def join(self, member: "LocalJob") -> None:
        with self.lock:
            self._members.append(member)
        self.wake()

    def leave(self, member: "LocalJob") -> None:
        with self.lock:
            if member in self._members:
                self._members.remove(member)
        self.wake()

    @property
    def is_under_way(self) -> bool:
        """True while an operator of any dataflow is running on this thread."""
        here = threading.get_ident()
        return any(member.stepping is not None and member._thread == here for member in self._members.copy())

    def run(self) -> bool:
        """Run one round of every dataflow; return False if there was no work."""
        with self.lock:
            have_run = [member._run_own_round() for member in self._members.copy()]
            self._answer()
        return any(have_run)

    def between(self, call: Callable[[], Answer], within_s: float) -> Answer | None:
        """Return the result of ``call()``, made between two rounds.

        None if the present round takes longer than ``within_s``.

        Use this on threads that run no rounds. The thread that runs rounds makes the call, since it hardly ever
        releases its lock between them.
        """
        answer: Future[Answer] = Future()
        self._asked.append((call, answer))
        if self.lock.acquire(timeout=_SOON_S):
            try:
                self._answer()
            finally:
                self.lock.release()
        try:
            return answer.result(within_s)
        except TimeoutError:
            answer.cancel()
            return None

    def _answer(self) -> None:
        while self._asked:
            call, answer = self._asked.popleft()
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(call())
                except Exception as error:  # noqa: BLE001 - the asking thread raises it
                    answer.set_exception(error)

    def sleep(self, deadline: float | None) -> bool:
        """Wait until the clock or another thread schedules an operator, or until a monotonic deadline.

        Return False at once if neither will schedule an operator.
        """
        awake: SimpleQueue[None] = SimpleQueue()  # Ctrl-C amid the wait for a threading.Event can be a RuntimeError
        self._sleepers.append(awake)
        try:
            with self.lock:
                left_s = [left for member in self._members if (left := member._left_s()) is not None]
                if any(member._has_work for member in self._members):
                    return True
                if not left_s and not any(member._is_expecting for member in self._members):
                    return False
            if deadline is not None:
                left_s.append(deadline - time.monotonic())
            with suppress(Empty):
                awake.get(timeout=max(0.0, min(left_s)) if left_s else None)
        finally:
            self._sleepers.remove(awake)
        return True

    def wake(self) -> None:
        for awake in self._sleepers.copy():
            awake.put(None)


class LocalJob(Job):
    """Runs the workers in turn, one step each, whenever the driver waits or reads a subscription.

    If the driver waits and no work is left, it raises at once instead of hanging.
    """

    engine = "local"

    def __init__(self, plan: Plan, workers: int, config: RuntimeConfig, shared: LocalRounds | None = None) -> None:
        super().__init__(plan, workers, config)
        self.stepping: int | None = None
        self._in_flight: list[deque[Envelope]] = [deque() for _ in range(workers)]
        self._shared = self._rounds = LocalRounds() if shared is None else shared
        self._thread, self._lock = 0, self._rounds.lock
        self._cores: list[WorkerCore] = []
        self._writers: list[PartWriter | None] = []
        self._at_exit = partial(end_with_program, weakref.ref(self))

    @property
    def _place(self) -> str:
        return "in this process"

    def _deploy(self, attachments: Mapping[str, Attachment]) -> None:
        atexit.register(self._at_exit)
        weakref.finalize(self, atexit.unregister, self._at_exit).atexit = False
        keeps = (snapshots := self._snapshots) is not None
        host = AttachmentHost(self.name, self.engine, self.workers, self._run_or_sleep, keeps_snapshots=keeps)
        self._attachments.start(attachments, host)
        beginnings = [None] * self.workers if snapshots is None else snapshots.read(self._beginnings)
        for worker, beginning in enumerate(beginnings):
            core = WorkerCore(
                self.plan,
                worker,
                self.workers,
                self._attachments.handles_for(worker),
                self._rounds.wake,
                progress=self.config.progress,
                bytes_in_flight=self.config.bytes_in_flight,
                clock=time.perf_counter,
                on_leak=self.config.on_leak,
                beginning=beginning,
                is_tracked=snapshots is not None,
                run="" if snapshots is None else snapshots.for_workers.run,
            )
            self._cores.append(core)
            self._writers.append(None if snapshots is None else snapshots.for_workers.writer())
        self._feed = LocalFeed(self)
        self._rounds.join(self)
        LOCAL_JOBS[self.name] = self

    def _beginnings(self, saved: WorkerSnapshots) -> list[WorkerBeginning | None]:
        return [saved.beginning(self.plan, worker, self.workers) for worker in range(self.workers)]

    def start(self) -> None:
        self._life.check_alive()
        self._life.has_started = True
        self._rounds.wake()

    # ------------------------------------------------------------------ rounds

    def run_round(self) -> bool:
        """Deliver messages, and run one step of each worker of this dataflow and the others.

        Return False if there was no work.

        Raises:
            JobError: an operator of this dataflow has raised.
        """
        self._captures.note_wait()
        return self._run_round()

    def _run_round(self) -> bool:
        with self._lock:
            self._life.check_alive()
            if self._rounds.is_under_way:
                raise JobError(
                    f"an operator of job {self.name!r} waits for the job itself, or reads what it publishes. On the "
                    "local engine nothing else runs meanwhile: let the program do so that called run()"
                )
            started, snapshots = self._life.has_started, self._snapshots
            if started and snapshots is not None and snapshots.is_due and not self._has_processed_all:
                self._feed.begin_snapshot(snapshots.begin())
            has_run = self._rounds.run() or self._take_awaited_snapshot()
            if started:
                self._logged.look()
            self._life.check_alive()
            return has_run

    def _run_or_sleep(self) -> bool:
        return self._run_round() or self._rounds.sleep(time.monotonic() + _QUIET_S)

    def _run_own_round(self) -> bool:
        if not self._has_work and (not self._life.has_started or self._life.has_ended or not self._let_sources_go_on()):
            return False
        self._thread = threading.get_ident()
        try:
            for worker, core in enumerate(self._cores):
                self.stepping = worker
                arrived, self._in_flight[worker] = self._in_flight[worker], deque()
                for envelope in arrived:
                    core.receive(envelope)
                for peer, envelope in core.step():
                    self._in_flight[peer].append(envelope)
            if self._snapshots is not None:
                self._write_parts(self._snapshots)
        except TidewheelError as error:
            self._fail(error)
        except BaseException as error:
            self._life.is_interrupted = not self._life.has_ended
            self._fail(JobError(f"job {self.name!r} was interrupted in the middle of a step by {type(error).__name__}"))
            raise
        finally:
            self.stepping = None
        return True

    def _take_awaited_snapshot(self) -> bool:
        """If a sink waits for a snapshot and no other work is left, begin a snapshot; return whether one has begun."""
        snapshots = self._snapshots
        if snapshots is None or not self._life.has_started:
            return False
        try:
            if not snapshots.is_awaited(max(core.saving.awaited() for core in self._cores)):
                return False
        except TidewheelError as error:
            self._fail(error)
            return False
        self._feed.begin_snapshot(snapshots.begin())
        return True

    def _write_parts(self, snapshots: JobSnapshots) -> None:
        for core, writer in zip(self._cores, self._writers, strict=True):
            while core.memory.parts and writer is not None:
                written = writer.write(core.memory.parts.popleft())
                if written.failure is not None:
                    core.memory.write_all_next()
                if snapshots.add(written):
                    snapshots.commit()
                    self._feed.tell_saved(snapshots.committed)

    def _take_snapshot(self, snapshots: JobSnapshots, timeout_s: float) -> int:
        with self._lock:
            while snapshots.is_under_way and self._run_round():
                pass
            number = snapshots.begin()
            self._feed.begin_snapshot(number)
        self._wait_for(lambda: snapshots.outcome_of(number), f"snapshot {number} of job {self.name!r}", timeout_s)
        return number

    @property
    def _has_work(self) -> bool:
        if not self._life.has_started or self._life.has_ended:
            return False
        return any(self._in_flight) or not all(core.is_idle for core in self._cores)

    @property
    def _is_expecting(self) -> bool:
        return self._life.has_started and any(core.agenda.expected for core in self._cores)

    @property
    def _is_at_rest(self) -> bool:
        with self._lock:
            busy = any(any(core.agenda.expected.values()) or not core.is_idle for core in self._cores)
            return not busy and all(core.agenda.left_s() is None for core in self._cores) and not any(self._in_flight)

    def _left_s(self) -> float | None:
        left_s = [left for core in self._cores if (left := core.agenda.left_s()) is not None]
        return None if not self._life.has_started or not left_s else min(left_s)

    def _let_sources_go_on(self) -> bool:
        """If no other work is left, let waiting sources send more; return whether there is work now."""
        released = [core.release() for core in self._cores if core.flow.is_held]
        return any(released)

    @property
    def is_complete(self) -> bool:
        with self._lock:
            return not any(self._in_flight) and self._has_processed_all

    @property
    def _has_processed_all(self) -> bool:
        return all(core.is_complete for core in self._cores)

    def _wait_for(
        self, condition: Callable[[], bool], what: str, timeout_s: float | None, probe: str | None = None
    ) -> None:
        self._life.check_alive()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not condition():
            if deadline is not None and time.monotonic() > deadline:
                raise self._timed_out(what, timeout_s, probe)
            until = self._shown.look(deadline)
            if not self._run_round() and not self._rounds.sleep(until) and not condition():
                inputs = self._feed.inputs.describe()
                why = self._explainer().stuck(probe) if self._life.has_started else f"call start() first ({inputs})"
                raise JobError(f"waiting for {what}, but the local job has nothing left to do: {why}")

    def _fetch_captured(self, name: str) -> CapturedBatches:
        with self._lock:
            return CapturedBatches([Captured(at, batch) for core in self._cores for at, batch in core.captured(name)])

    def _reports(self) -> Sequence[WorkerReport | BusyWorker]:
        with self._lock:
            return [core.running() if core.worker == self.stepping else core.report() for core in self._cores]

    def _look(self, within_s: float) -> tuple[str, Sequence[WorkerReport | BusyWorker]]:
        found = self._rounds.between(lambda: (self._state, [core.report() for core in self._cores]), within_s)
        if found is not None:
            use = process_use()
            return found[0], [replace(report, process=use) for report in found[1]]
        return "running", [core.running() for core in self._cores if core.worker == self.stepping]

    def _here(self) -> Mapping[str, object]:
        worker = self.stepping if self._thread == threading.get_ident() else None
        if worker is None:
            return {}
        return about(self.name, operator=self._cores[worker].running().operator, worker=worker)

    def _notes(self) -> tuple[str, ...]:
        if self._life.has_started and self._has_work:
            return ("the local engine only runs while the driver waits for something: there is work to do now",)
        return super()._notes()

    def _release(self) -> None:
        atexit.unregister(self._at_exit)
        self._rounds.leave(self)
        for queue in self._in_flight:
            queue.clear()
        for core in self._cores:
            core.closing.close()
