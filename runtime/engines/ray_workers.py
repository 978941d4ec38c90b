"""The workers of a Ray job and of the dataflows added to it: the driver creates, watches and ends them."""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from tidewheel.host.log_lines import JSON_BEGIN, LogSettings, about
from tidewheel.host.ray_cluster import NAMESPACE, actor_class, left, membership
from tidewheel.host.ray_internals import show_each_line
from tidewheel.host.retry import Retry
from tidewheel.host.worker_names import worker_name
from tidewheel.progress import GraphError, TidewheelError
from tidewheel.runtime.description.placement import Node, Placement
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.engines.job import Job
from tidewheel.runtime.engines.worker_watch import WorkerWatch
from tidewheel.runtime.errors import JobError, SnapshotError
from tidewheel.runtime.snapshots.entries import Process
from tidewheel.runtime.worker.worker_actor import CONCURRENT_CALLS, WorkerActor

_LOGGER = logging.getLogger(__name__)
_CHECK_S = 1.0
_RELEASE_TIMEOUT_S = 10.0
_DROP_TIMEOUT_S = 2.0
_OTHERS_TIMEOUT_S = 1.0


class RayWorkers:
    """The workers' actors, on nodes that `Placement` chooses, and a thread that watches them.

    They end when they are released, or when this process dies. By default they reserve no resources, so a job never
    waits for resources.

    Attributes:
        is_ending: whether the workers are about to be released, so that no dataflow needs to be dropped first.

    Raises:
        JobError: no nodes have room for the workers.
    """

    def __init__(self, job: str, operators: int, count: int, config: RuntimeConfig) -> None:
        self._job = job
        self._joined = membership()
        self._config = config
        if config.log_format == "json":
            show_each_line(JSON_BEGIN)
        self._lock = threading.Lock()
        self._hosted: dict[str, Job] = {}
        self._released = False
        self.is_ending = False
        self._error: JobError | None = None
        self._monitor: threading.Thread | None = None
        placement = Placement(config.placement, config.resources, config.node_labels)
        self._nodes = list(placement.choose(count, config.deploy_timeout_s, job))
        self.nodes = [node.id for node in self._nodes]
        self._placement = placement
        self._operators = operators
        self.actors: list[Any] = [self._made(worker) for worker in range(count)]
        self._processes: list[Process | None] = [None] * count
        self._replaced = [*self._processes]
        self.pids: list[int] = []

    def _made(self, worker: int) -> Any:
        logs = LogSettings(logging.getLogger("tidewheel").getEffectiveLevel(), self._config.log_format)
        options = self._placement.actor_options(self._nodes[worker])
        return (
            actor_class(WorkerActor)
            .options(
                **options,
                max_concurrency=CONCURRENT_CALLS,
                max_restarts=0,
                max_task_retries=0,
                name=worker_name(self._job, worker),
                namespace=NAMESPACE,
            )
            .remote(worker, len(self._nodes), self._operators, self._job, logs)
        )

    def come_up(self) -> None:
        """Wait until the processes of the workers run, and watch them from then on.

        Raise JobError if one does not start.

        A process that replaces another on its node waits until that has ended. Ray calls an actor dead before its
        process has ended; until then, the process could still connect to a publisher and publish.
        """
        found: list[Process] = self.call(self._job, "process", [(before,) for before in self._replaced])
        self._processes, self.pids = [*found], [process.pid for process in found]
        self._replaced = [None] * len(self.actors)
        processes = [f"process {pid} on node {node.name}" for pid, node in zip(self.pids, self._nodes, strict=True)]
        self._watch = WorkerWatch(self._job, self.actors, processes, self._config.hang_timeout_s)
        self._monitor = threading.Thread(
            target=self._watch_all, args=[self._watch], name=f"tidewheel-{self._job}", daemon=True
        )
        self._monitor.start()

    def come_up_again(self, job: str, *, stay: bool = False) -> None:
        """Remove a dataflow from the workers; replace workers that have died or cannot remove it.

        Raises:
            JobError: no nodes have room for the workers, or these do not start.
        """
        import ray

        calls = [actor.leave.remote(job, _DROP_TIMEOUT_S) for actor in self.actors]
        ray.wait(calls, num_returns=len(calls), timeout=2 * _DROP_TIMEOUT_S)
        for worker, call in enumerate(calls):
            if not _has_left(call):
                self._replace(worker, stay=stay)
        with self._lock:
            self._error = None
        self.come_up()

    def _replace(self, worker: int, *, stay: bool) -> None:
        import ray

        ray.kill(self.actors[worker], no_restart=True)
        before, self._replaced[worker] = self._nodes[worker], self._processes[worker]

        def made() -> Any:
            node = self._nodes[worker]
            if not stay or node.id not in {one.id for one in Node.all()}:
                [node] = self._placement.choose(1, self._config.deploy_timeout_s, self._job)
            self._nodes[worker], self.nodes[worker] = node, node.id
            if node.id != before.id:
                self._replaced[worker] = None
            return self._made(worker)

        # An actor's name is free once Ray knows that the actor has died.
        within_s = min(self._config.deploy_timeout_s, threading.TIMEOUT_MAX)
        again = Retry(within_s=within_s, first_pause_s=_CHECK_S / 10, factor=1.0, on=ValueError)
        self.actors[worker] = again.call(made)

    def call(
        self, job: str, method: str, arguments: Sequence[tuple[Any, ...]], by: float | None = None, *, reads: str = ""
    ) -> list[Any]:
        """Call a method of every worker; return the results. Raises the first failure at once.

        Raises:
            JobError, GraphError: a worker has raised such an error, has not answered in time, or has died.
        """
        import ray

        began = time.monotonic()
        deadline = began + self._config.deploy_timeout_s if by is None else by
        calls = [getattr(actor, method).remote(*each) for actor, each in zip(self.actors, arguments, strict=True)]
        waiting = calls
        while waiting:
            done, waiting = ray.wait(waiting, timeout=max(0.0, deadline - time.monotonic()))
            if not done:
                late = [f"{worker} on node {self._nodes[worker].name}" for worker in map(calls.index, waiting)]
                said = f"job {job!r}: {len(late)} of its {len(calls)} workers"
                within = f"within {deadline - began:.0f} s: {', '.join(late)}"
                if reads:
                    raise JobError(
                        f"{said} have not read {reads} {within}. See whether the storage is slow from there; "
                        "if not, raise RuntimeConfig.deploy_timeout_s"
                    )
                raise JobError(
                    f"{said} did not come up {within}. Nodes that are busy take long to start processes: raise "
                    "RuntimeConfig.deploy_timeout_s. Other jobs may have taken the resources meanwhile"
                )
            failure = _failure_of(done[0], calls.index(done[0]))
            if failure is not None:
                for other in ray.wait(calls, num_returns=len(calls), timeout=_OTHERS_TIMEOUT_S)[0]:
                    _failure_of(other, 0)  # Ray prints failures that no code has read
                raise failure
        return list(ray.get(calls))

    def host(self, job: Job) -> None:
        with self._lock:
            if self._error is None:
                self._hosted[job.name] = job
                return
        job._fail(self._error)

    @property
    def are_in_contact(self) -> bool:
        return not left(self._joined)

    def drop(self, job: str) -> None:
        """End a dataflow; do not wait long for a running operator; idempotent."""
        import ray

        with self._lock:
            self._hosted.pop(job, None)
            ends = self._released or self.is_ending or self._error is not None or left(self._joined)
        if ends:
            return
        calls = [actor.drop.remote(job, _DROP_TIMEOUT_S) for actor in self.actors]
        if threading.current_thread() is self._monitor:
            return
        done, _ = ray.wait(calls, num_returns=len(calls), timeout=2 * _DROP_TIMEOUT_S)
        for worker, call in enumerate(calls):
            try:
                busy = ray.get(call) if call in done else "there, and does not answer"
            except ray.exceptions.RayError:  # the actor has died, which the watching thread reports
                continue
            if busy is not None:
                _LOGGER.warning(
                    "job %r was dropped, but worker %d is still %s; there it ends after that, or with job %r",
                    job,
                    worker,
                    busy,
                    self._job,
                    extra=about(job, worker=worker),
                )

    def release(self) -> None:
        """End the workers, even if they are busy; idempotent."""
        import ray

        with self._lock:
            self._released = True
        if not left(self._joined):
            for actor in self.actors:
                ray.kill(actor, no_restart=True)
        if self._monitor is not None and self._monitor is not threading.current_thread():
            self._monitor.join(_RELEASE_TIMEOUT_S)

    # ------------------------------------------------------------------ watching, on a thread of its own

    def _watch_all(self, watch: WorkerWatch) -> None:
        try:
            self._watch_on(watch)
        except JobError as error:
            if self._watch is watch:
                self._fail_all(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - Ray raises SystemExit where it is shut down
            self._fail_all(self._out_of_contact(error))

    def _watch_on(self, watch: WorkerWatch) -> None:
        next_check = 0.0
        while not self._released and self._watch is watch:
            if membership() != self._joined:
                raise RuntimeError("Ray was shut down")
            jobs = list(self._hosted.values())
            has_news = watch.wait(_CHECK_S, [call for job in jobs for call in job._attachments.pending])
            self._show_telemetry(watch, jobs)
            if has_news or time.monotonic() >= next_check:
                next_check = time.monotonic() + _CHECK_S
                watch.check()
                for job in jobs:
                    self._check_attachments(job)

    def _show_telemetry(self, watch: WorkerWatch, jobs: Sequence[Job]) -> None:
        wanted, watch.wanted = watch.wanted, set()
        for job in jobs:
            if job.name in wanted:
                job._telemetry.open()

    def _check_attachments(self, job: Job) -> None:
        attachments = job._attachments
        had_ended = attachments.have_ended
        try:
            attachments.check()
        except TidewheelError as error:
            self.fail(job, error)
        if attachments.have_ended != had_ended:
            with job._life.changed:
                job._life.changed.notify_all()

    def fail(self, job: Job, error: Exception) -> None:
        """Fail a job, or all jobs on the workers if the cause is a worker's death; thread-safe."""
        cause = error if isinstance(error, TidewheelError) else JobError(f"job {job.name!r} failed: {error!r}")
        try:
            death = self._watch.death_behind(cause)
        except (Exception, SystemExit) as failure:  # noqa: BLE001 - the job must not go on
            death = self._out_of_contact(failure)
        if death is None:
            job._fail(cause)
        else:
            self._fail_all(death)

    def _out_of_contact(self, error: BaseException) -> JobError:
        reason = left(self._joined) or repr(error)
        return JobError(f"the driver lost contact with the workers of job {self._job!r}: {reason}")

    def _fail_all(self, error: JobError) -> None:
        with self._lock:
            if self._released:
                return
            self._error = error
            jobs = list(self._hosted.values())
        for job in reversed(jobs):
            job._fail(error)


def _has_left(call: Any) -> bool:
    import ray

    try:
        return ray.get(call, timeout=0) is None
    except ray.exceptions.RayError:
        return False


def _failure_of(deployment: Any, worker: int) -> Exception | None:
    import ray

    try:
        ray.get(deployment)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        return (
            cause
            if isinstance(cause, JobError | GraphError | SnapshotError)
            else JobError(f"a worker could not come up: {error}")
        )
    except ray.exceptions.RayError as error:
        return JobError(f"worker {worker} died while it came up: {error}", worker=worker)
    return None
