"""The local engine: any number of workers in this process, no thread, no Ray; the same run every time."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tidewheel.progress import Antichain, TidewheelError, Time
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.engines.captured import Captured, CapturedBatches, CapturedHere
from tidewheel.runtime.engines.job import Job
from tidewheel.runtime.engines.local_rounds import LocalRounds
from tidewheel.runtime.engines.runtime_config import RuntimeConfig
from tidewheel.runtime.errors import JobError, TokenError
from tidewheel.runtime.inputs.feed import Admission, Feed
from tidewheel.runtime.worker.envelope import Envelope, InputCommand
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.runtime.worker.worker_report import BusyWorker, WorkerReport
from tidewheel.transport.attachment import Attachment, AttachmentHost
from tidewheel.transport.batches import copy_of
from tidewheel.transport.socket_address import DRIVER

_QUIET_S = 0.2


class LocalJob(Job):
    """Runs the workers in turn, one step each, whenever the driver waits for something.

    Nothing runs between calls; `Job.wait`, `ProbeHandle.wait_until` and reading a subscription run it. Where it has
    nothing left to do and the driver still waits, that is an error at once, not a hang.
    """

    engine = "local"

    def __init__(
        self,
        plan: Plan,
        workers: int,
        attachments: Mapping[str, Attachment],
        paused: bool,
        config: RuntimeConfig,
        rounds: LocalRounds | None = None,
    ) -> None:
        super().__init__(plan, workers, config)
        self._started = not paused
        self._stepping: int | None = None
        self._in_flight: list[deque[Envelope]] = [deque() for _ in range(workers)]
        self._rounds = rounds if rounds is not None else LocalRounds()
        self._lock = self._rounds.lock
        self._attachments.start(attachments, AttachmentHost(self.name, self.engine, workers, self._run_or_sleep))
        self._cores: list[WorkerCore] = []
        try:
            for worker in range(workers):
                handles = self._attachments.handles_for(worker)
                core = WorkerCore(
                    plan,
                    worker,
                    workers,
                    handles,
                    self._rounds.wake,
                    progress=config.progress,
                    bytes_in_flight=config.bytes_in_flight,
                    clock=time.perf_counter,
                )
                self._cores.append(core)
        except BaseException:
            self._close_operators()
            self._attachments.finish(f"job {self.name!r} could not start")
            raise
        self._inputs.open(plan, _LocalFeed(self))
        self._rounds.join(self)

    def _host(self, plan: Plan, attachments: Mapping[str, Attachment], paused: bool) -> Job:
        return LocalJob(plan, self.workers, attachments, paused, self.config, self._rounds)

    def start(self) -> None:
        """Let the workers run. Idempotent."""
        self._check_alive()
        self._started = True
        self._rounds.wake()

    # ------------------------------------------------------------------ rounds

    def run_round(self) -> bool:
        """Deliver what is in flight and run one step of each worker, of this dataflow and those that it runs beside.

        Returns False if there was nothing to do.

        Raises:
            JobError: an operator of this dataflow raised, now or before.
        """
        with self._lock:
            self._check_alive()
            if self._rounds.is_under_way:
                raise JobError(
                    f"an operator of job {self.name!r} waits for the job itself, or reads what it publishes. On the "
                    "local engine nothing else runs meanwhile: let the program do so that called run()"
                )
            has_run = self._rounds.run()
            self._check_alive()
            return has_run

    def _run_or_sleep(self) -> bool:
        """Run a round or, where a timer or another thread will give it something to do, wait for that a while."""
        return self.run_round() or self._rounds.sleep(time.monotonic() + _QUIET_S)

    @property
    def is_stepping(self) -> bool:
        """Whether one of its operators runs."""
        return self._stepping is not None

    def run_own_round(self) -> bool:
        """Run one step of each worker of this dataflow; return whether there was anything to do."""
        if not self.has_work and (not self._started or self._has_ended or not self._let_sources_go_on()):
            return False
        try:
            for worker, core in enumerate(self._cores):
                self._stepping = worker
                self._step(worker, core)
        except TidewheelError as error:
            self._fail(error)
        except BaseException as error:
            self._fail(JobError(f"job {self.name!r} was interrupted in the middle of a step by {type(error).__name__}"))
            raise
        finally:
            self._stepping = None
        return True

    @property
    def has_work(self) -> bool:
        """Whether there is something to do now."""
        if not self._started or self._has_ended:
            return False
        return any(self._in_flight) or not all(core.is_idle for core in self._cores)

    @property
    def is_expecting(self) -> bool:
        """Whether another thread is going to activate an operator."""
        return self._started and any(core.agenda.expected for core in self._cores)

    @property
    def _is_at_rest(self) -> bool:
        """Whether this dataflow has nothing to do, now or later, with what it has received."""
        with self._lock:
            resting = all(core.is_idle and core.agenda.left_s() is None for core in self._cores)
            at_work = any(any(core.agenda.expected.values()) for core in self._cores)
            return resting and not at_work and not any(self._in_flight)

    def left_s(self) -> float | None:
        """Return for how many seconds it has nothing to do; None if that depends on others."""
        left_s = [left for core in self._cores if (left := core.agenda.left_s()) is not None]
        return None if not self._started or not left_s else min(left_s)

    def _step(self, worker: int, core: WorkerCore) -> None:
        arrived, self._in_flight[worker] = self._in_flight[worker], deque()
        for envelope in arrived:
            core.receive(envelope)
        for peer, envelope in core.step():
            self._in_flight[peer].append(envelope)

    def _let_sources_go_on(self) -> bool:
        """Where sources are held back and nothing else is left to do, let them send more; return whether that helps."""
        released = [core.release() for core in self._cores if core.flow.is_held]
        return any(released)

    @property
    def is_complete(self) -> bool:
        """Whether every frontier is empty and nothing is in flight."""
        with self._lock:
            return not any(self._in_flight) and all(core.is_complete for core in self._cores)

    def _frontier(self, probe: str) -> Antichain:
        with self._lock:
            self._check_alive()
            return self._cores[0].probes.frontier(probe)

    def _wait_for(
        self, condition: Callable[[], bool], what: str, timeout: float | None, probe: str | None = None
    ) -> None:
        self._check_alive()
        deadline = None if timeout is None else time.monotonic() + timeout
        while not condition():
            if deadline is not None and time.monotonic() > deadline:
                raise self._timed_out(what, timeout, probe)
            if not self.run_round() and not self._rounds.sleep(deadline) and not condition():
                raise JobError(f"waiting for {what}, but the local job has nothing left to do: {self._stuck(probe)}")

    def _stuck(self, probe: str | None) -> str:
        """Say why nothing is left to do: what holds ``probe`` back or, if it is None, keeps the job from ending."""
        if not self._started:
            return f"call start() first ({self._inputs.describe()})"
        return self._diagnosis.stuck(probe)

    def _fetch_captured(self, name: str) -> CapturedBatches:
        with self._lock:
            kept = [Captured(at, batch) for core in self._cores for at, batch in core.captured(name)]
        return CapturedHere(kept)

    def _reports(self) -> Sequence[WorkerReport | BusyWorker]:
        with self._lock:
            return [core.running() if core.worker == self._stepping else core.report() for core in self._cores]

    def _notes(self) -> tuple[str, ...]:
        if self._started and self.has_work:
            return ("the local engine only runs while the driver waits for something: there is work to do now",)
        return super()._notes()

    def _release(self) -> None:
        self._rounds.leave(self)
        for queue in self._in_flight:
            queue.clear()
        self._close_operators()

    def _close_operators(self) -> None:
        for core in self._cores:
            core.closing.close()


class _LocalFeed(Feed):
    """Feeds the inputs of a job in this process."""

    def __init__(self, job: LocalJob) -> None:
        super().__init__(job.workers, job._lock, job.config.bytes_in_flight, job.config.epochs_ahead)
        self._job = job
        self._sequences = [0] * job.workers

    def is_past(self, time: Time) -> bool:
        """Tell whether a time is complete at every outermost probe."""
        return not any(self._job._frontier(name).less_equal(time) for name in self._job._outermost_probes)

    def wait(self, condition: Callable[[], bool], timeout: float | None) -> Admission:
        """Run the job until ``condition()`` holds."""
        job, rounds = self._job, self._job._rounds
        rests_since = time.monotonic()
        deadline = None if timeout is None else time.monotonic() + timeout
        while job._started and not rounds.is_under_way:
            if condition():
                return Admission.ROOM
            if deadline is not None and time.monotonic() >= deadline:
                return Admission.TIMED_OUT
            if not job._is_at_rest:
                rests_since = time.monotonic()
            until = time.monotonic() + _QUIET_S
            has_run = job.run_round() or rounds.sleep(until if deadline is None else min(until, deadline))
            if condition():
                return Admission.ROOM
            # Other dataflows may feed this one, or go on for ever.
            if not has_run or (job._is_at_rest and time.monotonic() - rests_since > _QUIET_S):
                return Admission.LET_IN
        return Admission.ROOM  # as much as there is memory: nothing runs while a job is paused, or an operator sends

    def ticket(self, name: str, handle: int, time: Time) -> tuple[Any, ...]:
        """Refuse."""
        raise TokenError(
            f"a handle of input {name!r} cannot be pickled: the local engine runs in this process alone, and its "
            "threads may share the handle. Other processes can feed jobs of engine='ray'"
        )

    def fail(self, name: str, error: JobError) -> None:
        """Fail the job, between two steps of it."""
        with self.lock:
            self._job._fail(error)

    def _carry(self, worker: int, command: InputCommand) -> None:
        with self.lock:
            self._job._check_alive()
            # Ray pickles what is sent; here too the driver may use its list or array again.
            sent = msgspec.structs.replace(command, batch=copy_of(command.batch))
            self._job._in_flight[worker].append(Envelope(DRIVER, 0, self._sequences[worker], commands=[sent]))
            self._sequences[worker] += 1
        self._job._rounds.wake()

    def _taken(self, worker: int) -> int:
        return self._job._cores[worker].intake.taken_from(DRIVER)
