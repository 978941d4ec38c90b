"""The Ray engine: one actor for each worker, watched from a thread of the driver."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pickle import PicklingError
from typing import Any

from tidewheel.progress import Antichain, GraphError, ProtocolError, TidewheelError
from tidewheel.runtime.attachment import Attachment
from tidewheel.runtime.envelope import DRIVER, Envelope, InputCommand
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.input_gate import Admission
from tidewheel.runtime.job import Captured, Job
from tidewheel.runtime.links.link import Sender
from tidewheel.runtime.links.packed_batch import unpack
from tidewheel.runtime.links.ray_link import RaySender
from tidewheel.runtime.links.socket_keys import SocketKeys
from tidewheel.runtime.links.socket_link import SocketAddress, SocketSender
from tidewheel.runtime.pickling import unpicklable
from tidewheel.runtime.placement import Placement
from tidewheel.runtime.plan import Plan, Stage
from tidewheel.runtime.ray_cluster import NAMESPACE, connect
from tidewheel.runtime.runtime_config import RuntimeConfig
from tidewheel.runtime.worker_actor import CONCURRENT_CALLS, SocketPeers, WorkerActor
from tidewheel.runtime.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.worker_status import Phase, WorkerStatus
from tidewheel.runtime.worker_watch import WorkerWatch

_LOGGER = logging.getLogger(__name__)
_CHECK_S = 1.0
_FETCH_TIMEOUT_S = 120.0
_RELEASE_TIMEOUT_S = 10.0
_REPORT_TIMEOUT_S = 2.0
_QUIET_S = 0.2
_TOLD_WITHIN_S = 10.0


class RayJob(Job):
    """Runs each worker in a Ray actor, on the node that `Placement` chooses.

    The actors belong to this process: they end when the job is stopped or fails, and when this process dies. Unless the
    configuration says otherwise they reserve nothing, so a job always finds room beside what else runs on the cluster.
    """

    engine = "ray"

    def __init__(
        self,
        plan: Plan,
        workers: int,
        attachments: Mapping[str, Attachment],
        paused: bool,
        config: RuntimeConfig,
    ) -> None:
        super().__init__(plan, workers, config)
        connect()
        self._changed = threading.Condition()
        self._statuses: dict[int, WorkerStatus] = {}
        self._sequences = [0] * workers
        self._submit_lock = threading.Lock()
        self._started = False
        self._actors: list[Any] = []
        self._sender: Sender | None = None
        self._monitor: threading.Thread | None = None
        self.pids: list[int] = []
        packed = _pack(plan)
        self._start_attachments(attachments, None)
        try:
            self._deploy(packed)
        except BaseException:
            self._finish_attachments(f"job {self.name!r} could not start")
            self._release()
            raise
        self._monitor = threading.Thread(target=self._watch, name=f"tidewheel-{self.name}", daemon=True)
        self._monitor.start()
        if not paused:
            try:
                self.start()
            except BaseException:
                self.stop()
                raise

    def _deploy(self, packed: Any) -> None:
        import ray

        placement = Placement(self.config.placement, self.config.resources, self.config.node_labels)
        self._nodes = placement.choose(self.workers, self.config.deploy_timeout_s, self.name)
        self._deploy_by = time.monotonic() + self.config.deploy_timeout_s
        actor = ray.remote(WorkerActor)
        self._actors = [
            actor.options(
                **placement.actor_options(node),
                max_concurrency=CONCURRENT_CALLS,
                max_restarts=0,
                max_task_retries=0,
                name=f"tidewheel-{self.name}-worker-{worker}",
                namespace=NAMESPACE,
            ).remote(worker, self.workers, self.plan.name)
            for worker, node in enumerate(self._nodes)
        ]
        incarnation = int.from_bytes(os.urandom(6), "big")
        peers = self._connect()
        arguments = [(packed, self._handles(worker), peers, incarnation, self.config) for worker in range(self.workers)]
        self.pids = self._call("deploy", arguments)

    def _connect(self) -> Sequence[Any] | SocketPeers:
        """Open this process's end of the link; return what the workers need to open theirs."""
        import ray

        if self.config.link == "ray":
            self._sender = RaySender(self._actors)
            return self._actors
        node, keys = ray.get_runtime_context().get_node_id(), SocketKeys.make()
        addresses: list[SocketAddress] = self._call("listen", [()] * self.workers)
        if any(address.node != node for address in addresses):
            addresses = self._call("listen_to_other_nodes", [(keys,)] * self.workers)
        self._sender = SocketSender(DRIVER, node, dict(enumerate(addresses)), keys, 0)
        return SocketPeers(addresses, keys)

    def _call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every worker; return what they return, or raise the first failure at once."""
        import ray

        calls = [getattr(actor, method).remote(*each) for actor, each in zip(self._actors, arguments, strict=True)]
        waiting = calls
        while waiting:
            done, waiting = ray.wait(waiting, timeout=max(0.0, self._deploy_by - time.monotonic()))
            if not done:
                late = [f"{worker} on node {self._nodes[worker].name}" for worker in map(calls.index, waiting)]
                raise JobError(
                    f"job {self.name!r}: {len(late)} of its {self.workers} workers did not come up within "
                    f"{self.config.deploy_timeout_s:g} s: {', '.join(late)}. Nodes that are busy take long to start "
                    "processes: raise RuntimeConfig.deploy_timeout_s. What they reserve may have been taken meanwhile"
                )
            failure = _failure_of(done[0])
            if failure is not None:
                raise failure
        return list(ray.get(calls))

    def start(self) -> None:
        """Let the workers run. Idempotent."""
        import ray

        self._check_alive()
        with self._submit_lock:
            if self._started:
                return
            self._started = True
        try:
            ray.get([actor.start.remote() for actor in self._actors], timeout=self.config.deploy_timeout_s)
        except ray.exceptions.RayError as error:
            with self._changed:  # the watching thread knows why, or is about to
                self._changed.wait_for(lambda: self._error is not None or self._stopped, _TOLD_WITHIN_S)
            self._check_alive()
            raise JobError(f"job {self.name!r}: its workers could not be started: {error}") from error

    # ------------------------------------------------------------------ watching, on a thread of its own

    def _watch(self) -> None:
        """Watch the workers until the job ends; whatever goes wrong meanwhile fails it."""
        processes = [f"process {pid} on node {node.name}" for pid, node in zip(self.pids, self._nodes, strict=True)]
        watch = WorkerWatch(self.name, self._actors, processes, self.config.hang_timeout_s)
        try:
            self._watch_with(watch)
        except (JobError, ProtocolError) as error:
            self._fail(watch.cause_of(error))
        except Exception as error:  # noqa: BLE001 - the thread must not end in silence
            self._fail(JobError(f"the driver lost contact with the workers of job {self.name!r}: {error}"))

    def _watch_with(self, watch: WorkerWatch) -> None:
        """Take what workers report, and look now and then for what has died without a word."""
        next_check = 0.0
        while not self._stopped and self._error is None:
            for worker, status in watch.news(_CHECK_S):
                with self._changed:
                    self._statuses[worker] = status
                    self._changed.notify_all()
            if time.monotonic() >= next_check:
                next_check = time.monotonic() + _CHECK_S
                self._check_attachments()
                watch.check()
                with self._submit_lock:
                    if self._sender is not None:
                        self._sender.check()

    def _check_attachments(self) -> None:
        """Raise JobError if something that lives beside the job has died."""
        for name, running in self._attachments.items():
            try:
                running.check()
            except TidewheelError as error:
                raise JobError(f"job {self.name!r} has lost {name!r}: {error}") from error

    def _fail(self, error: Exception) -> None:
        with self._changed:
            if self._stopped or self._error is not None:
                return
            self._error = error
            self._changed.notify_all()
        _LOGGER.error("job %r failed: %s", self.name, error.args[0] if error.args else error)
        self._release()
        self._finish_attachments(str(error.args[0]) if error.args else repr(error))

    # ------------------------------------------------------------------ for the base class

    @property
    def is_complete(self) -> bool:
        """Whether every worker has seen every frontier empty."""
        with self._changed:
            statuses = [self._statuses.get(worker) for worker in range(self.workers)]
            return all(status is not None and status.phase is Phase.COMPLETE for status in statuses)

    def _submit(self, worker: int, command: InputCommand) -> None:
        with self._submit_lock:
            self._check_alive()
            assert self._sender is not None, "it is there as long as the job is alive"
            envelope = Envelope(DRIVER, 0, self._sequences[worker], commands=[command])
            try:
                self._sender.send(worker, envelope)
            except (TypeError, AttributeError, PicklingError) as error:
                # Nothing was sent, so the number is still free and the job goes on.
                reason = unpicklable(command, error)
                name = command.input
                raise JobError(f"input {name!r}: a batch cannot be pickled, so it was not sent: {reason}") from None
            self._sequences[worker] += 1
            self._submitted_bytes[worker] += command.size

    def _taken(self, worker: int) -> int:
        with self._changed:
            status = self._statuses.get(worker)
            return 0 if status is None else status.taken

    def _wait_for_room(self, condition: Callable[[], bool], timeout: float | None) -> Admission:
        deadline = None if timeout is None else time.monotonic() + timeout
        before: list[int] | None = None
        while self._started:
            slice_s = _QUIET_S if deadline is None else min(_QUIET_S, max(0.0, deadline - time.monotonic()))
            with self._changed:
                over = self._changed.wait_for(lambda: self._error is not None or self._stopped or condition(), slice_s)
            if over:
                return Admission.ROOM
            if deadline is not None and time.monotonic() >= deadline:
                return Admission.TIMED_OUT
            before, earlier = self._steps_if_idle(), before
            if before is not None and before == earlier:
                return Admission.LET_IN
        return Admission.ROOM  # as much as there is memory: nothing runs while a job is paused

    def _steps_if_idle(self) -> list[int] | None:
        """Return how many steps each worker has taken, None if some worker has something to do."""
        reports = self._reports()
        if any(isinstance(report, BusyWorker) or report.scheduled for report in reports):
            return None
        return [report.statistics.steps for report in reports if isinstance(report, WorkerReport)]

    def _frontier(self, probe: str) -> Antichain:
        domain = self._probe_domains[probe]
        self._check_alive()
        with self._changed:
            status = self._statuses.get(0)
            if status is None or probe not in status.probes:
                return Antichain(domain, [domain.minimum()])
            return Antichain.from_minimal(domain, status.probes[probe])

    def _wait_for(
        self, condition: Callable[[], bool], what: str, timeout: float | None, probe: str | None = None
    ) -> None:
        self._check_alive()
        with self._changed:
            reached = self._changed.wait_for(lambda: self._error is not None or self._stopped or condition(), timeout)
        self._check_alive()
        if not reached:
            raise self._timed_out(what, timeout, probe)

    def _fetch_captured(self, name: str) -> list[Captured]:
        import ray

        calls = [actor.captured.remote(name) for actor in self._actors]
        try:
            parts = ray.get(calls, timeout=_FETCH_TIMEOUT_S)
        except ray.exceptions.RayError as error:
            raise JobError(f"capture {name!r} cannot be fetched from the workers: {error}") from error
        return [Captured(at, unpack(batch)) for part in parts for at, batch in part]

    def _reports(self) -> Sequence[WorkerReport | BusyWorker]:
        import ray

        calls = [actor.report.remote(_REPORT_TIMEOUT_S) for actor in self._actors]
        ray.wait(calls, num_returns=len(calls), timeout=2 * _REPORT_TIMEOUT_S)
        return [self._report_of(worker, call) for worker, call in enumerate(calls)]

    @staticmethod
    def _report_of(worker: int, call: Any) -> WorkerReport | BusyWorker:
        import ray

        try:
            report: WorkerReport | BusyWorker = ray.get(call, timeout=0)
        except ray.exceptions.RayError:  # too late, or it has died, of which the watching thread will tell
            return BusyWorker(worker)
        return report

    def _notes(self) -> tuple[str, ...]:
        if not self._started:
            return ("the job was deployed with paused=True and has not been started: call start()",)
        return ()

    def _release(self) -> None:
        import ray

        with self._changed:
            self._changed.notify_all()
        if ray.is_initialized():
            for actor in self._actors:
                ray.kill(actor, no_restart=True)
        if self._monitor is not None and self._monitor is not threading.current_thread():
            self._monitor.join(_RELEASE_TIMEOUT_S)
        with self._submit_lock:
            if self._sender is not None:
                self._sender.close()
                self._sender = None


def _failure_of(deployment: Any) -> Exception | None:
    """Return why a worker could not be deployed, None if it could."""
    import ray

    try:
        ray.get(deployment)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        return cause if isinstance(cause, JobError | GraphError) else JobError(f"a worker could not be built: {error}")
    except ray.exceptions.RayError as error:
        return JobError(f"a worker died while it was being built: {error}")
    return None


def _pack(plan: Plan) -> Any:
    """Put the plan in the object store; raise GraphError naming the operator whose function cannot be pickled."""
    import ray

    try:
        return ray.put(plan)
    except Exception as error:
        functions = [
            (part.name, part.transform if isinstance(part, Stage) else part.build)
            for operator in plan.operators
            for part in operator.stages or (operator,)
        ]
        for name, function in functions:
            reason = unpicklable(function)
            if reason is not None:
                raise GraphError(
                    f"operator {name!r} cannot be pickled, so it cannot be sent to the workers: {reason}. "
                    "Make what its function uses inside the function, or in build()"
                ) from error
        raise
