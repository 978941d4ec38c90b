"""The Ray engine: a dataflow on its own worker actors, or on those of another job."""

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tidewheel.display.figures import size_text
from tidewheel.host.attachment import Attachment, AttachmentHost
from tidewheel.host.log_lines import about
from tidewheel.host.program_classes import CLASSES
from tidewheel.host.ray_cluster import connect, node_id
from tidewheel.progress import GraphError, TidewheelError
from tidewheel.runtime.description.plan import Plan, Stage
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.engines.captured import CapturedBatches, CapturedOnWorkers
from tidewheel.runtime.engines.driver_feed import DriverFeed
from tidewheel.runtime.engines.job import Job, end_with_program
from tidewheel.runtime.engines.ray_workers import RayWorkers
from tidewheel.runtime.engines.recovery import Recovery
from tidewheel.runtime.engines.snapshot_taker import SnapshotTaker
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.inputs.asking import ask_workers
from tidewheel.runtime.inputs.feed_link import FeedAddress, FeedLink
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.runtime.messages.feeder_status import Phase
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.snapshots.job_snapshots import JobSnapshots
from tidewheel.runtime.snapshots.worker_snapshots import WorkerSnapshots
from tidewheel.transport.frames import unpicklable
from tidewheel.transport.socket_address import SocketKeys, SocketPeers
from tidewheel.transport.unpicklable_part import way_to_unpicklable

_LOGGER = logging.getLogger(__name__)
_TOLD_S = 10.0
_LEAST_READ_PER_S = 4 << 20
"""The assumed least rate, in bytes per second, at which workers read a snapshot and build operators from it."""

_SILENT_S = 5.0
"""After a wait of this many seconds for a probe, a warning names the open inputs."""


class RayJob(Job):
    """Runs the dataflow on Ray actors, one for each worker; see `RayWorkers`.

    Args:
        shared: the workers of another job, on which to run; None makes new workers.
    """

    engine = "ray"
    _feed: DriverFeed

    def __init__(self, plan: Plan, workers: int, config: RuntimeConfig, shared: RayWorkers | None = None) -> None:
        super().__init__(plan, workers, config)
        self._link: FeedLink | None = None
        self._taker: SnapshotTaker | None = None
        self._recovery: Recovery | None = None
        self._is_host = shared is None
        self._at_exit = partial(end_with_program, weakref.ref(self))
        connect(JobError, config.deploy_timeout_s)
        self._packed = _pack(plan)
        self._workers = RayWorkers(self.name, len(plan.operators), workers, config) if shared is None else shared
        self._shared = self._workers

    @property
    def _place(self) -> str:
        import ray

        pids = ", ".join(map(str, self.pids))
        return f"on the Ray cluster {ray.get_runtime_context().gcs_address}, in the processes {pids}"

    def _deploy(self, attachments: Mapping[str, Attachment]) -> None:
        nodes, keeps_snapshots = self._workers.nodes, self._snapshots is not None
        host = AttachmentHost(
            self.name,
            self.engine,
            self.workers,
            nodes=nodes,
            keeps_snapshots=keeps_snapshots,
            deploy_timeout_s=self.config.deploy_timeout_s,
        )
        self._attachments.start(attachments, host)
        if self._snapshots is not None and self._is_host:
            self._recovery = Recovery(self, self._snapshots)
            self._recovery.bring_up(self._deploy_once)
        else:
            self._deploy_once()
            self._packed = None  # this frees the plan in the object store

    def _deploy_once(self) -> None:
        if self._is_host:
            atexit.register(self._at_exit)  # Ray has registered its own handler before, so Python calls this one first
            self._workers.come_up()
        _LOGGER.debug("job %r: workers are up on %s", self.name, self._workers.nodes, extra=about(self.name))
        self._deploy_workers()
        self._take_snapshots()

    def _deploy_workers(self) -> None:
        self.pids, nodes = self._workers.pids, self._workers.nodes
        if self._snapshots is not None:
            nodes = [""] * self.workers  # sources read near records, and another run may have its workers elsewhere
            self._snapshots.read(self._have_read)
        reads, limit_s = self._reading()
        by = time.monotonic() + limit_s
        sockets = self._listen(by) if self.config.link == "socket" else None
        inputs = {name: self.plan.input_nesting(name).domain for name in self.plan.inputs}
        incarnation = int.from_bytes(os.urandom(6), "big")
        address = FeedAddress(
            self.name,
            list(self._workers.actors),
            sockets,
            inputs,
            self.outermost_probes,
            self.config,
            incarnation,
            keeps_snapshots=self._snapshots is not None,
            goes_back=self._recovery is not None and self._recovery.may_begin,
        )
        feed = DriverFeed(self, address)
        if self._link is not None:
            feed.go_on_from(self._feed)  # now, since the job may have to go back once more before it is deployed
        self._feed, self._link = feed, feed.link
        if self._recovery is not None:
            self._workers.host(self)  # from now on, the death of a worker is reported, and deploys the job again
        peers = self._workers.actors if sockets is None else sockets
        saved = None if self._snapshots is None else self._snapshots.for_workers
        handles = map(self._attachments.handles_for, range(self.workers))
        arguments = [
            (self.name, self._packed, handle, peers, incarnation, self.config, nodes, saved) for handle in handles
        ]
        self._workers.call(self.name, "deploy", arguments, by, reads=reads)
        built = len(self.plan.operators)
        _LOGGER.debug("job %r: workers have built %d operators each", self.name, built, extra=about(self.name))
        self._link.join(by)
        _LOGGER.debug("job %r: workers are linked by %r", self.name, self.config.link, extra=about(self.name))
        self._workers.host(self)

    def _reading(self) -> tuple[str, float]:
        size = 0 if self._snapshots is None else self._snapshots.for_workers.size
        reads = f"a snapshot of {size_text(size)}" if size else ""
        return reads, self.config.deploy_timeout_s + size / _LEAST_READ_PER_S

    def _have_read(self, saved: WorkerSnapshots) -> None:
        reads, limit_s = self._reading()
        arguments = [(self.name, self._packed, saved)] * self.workers
        for damaged in self._workers.call(self.name, "read", arguments, time.monotonic() + limit_s, reads=reads):
            if damaged is not None:
                raise damaged

    def _fail(self, error: TidewheelError) -> None:
        self._telemetry.fail(error)
        if self._recovery is None or self._life.has_ended or not self._recovery.takes_on(error):
            super()._fail(error)

    def _fail_for_good(self, error: TidewheelError) -> None:
        super()._fail(error)

    def _go_back(self, snapshots: JobSnapshots, have_come_up: Callable[[], None]) -> None:
        """Return to the last snapshot with a new worker in place of each dead one.

        Raises:
            JobError: the workers did not start.
            SnapshotError: the snapshot cannot be read.
        """
        self._life.goes_back = True
        self._telemetry.tell()
        if self._taker is not None:
            self._taker.close()
        if self._link is not None:
            self._link.close()
        self._workers.come_up_again(self.name, stay=bool(self._attachments.topics))
        have_come_up()
        self._attachments.go_back(self._workers.nodes)
        snapshots.go_back()
        self._deploy_workers()
        with self._lock:
            self._feed.snapshot = snapshots.number
            self._handles.go_back(self._feed, {} if snapshots.manifest is None else snapshots.positions)
            if self._life.has_started:
                self._workers.call(self.name, "start", [(self.name,)] * self.workers)
        self._take_snapshots()  # from now on, as they contain the positions of handles
        self._life.have_gone_back()
        self._telemetry.tell()

    def _give_up_going_back(self) -> None:
        if self._life.goes_back and self._link is not None:
            self._link.give_up()

    def _take_snapshots(self) -> None:
        if self._snapshots is not None and self._link is not None:
            self._taker = SnapshotTaker(self, self._feed, self._snapshots)

    def _take_snapshot(self, snapshots: JobSnapshots, timeout_s: float) -> int:
        assert self._taker is not None, "it was deployed"
        return self._taker.take(timeout_s)

    def _listen(self, by: float) -> SocketPeers:
        keys = SocketKeys.make()
        shared = keys if set(self._workers.nodes) != {node_id()} else None
        addresses = self._workers.call(self.name, "listen", [(self.name, shared)] * self.workers, by)
        return SocketPeers(addresses, keys)

    def start(self) -> None:
        self._life.check_alive()
        with self._lock:
            if self._life.has_started:
                return
            self._life.has_started, returns = True, self._life.returns
        try:
            self._workers.call(self.name, "start", [(self.name,)] * self.workers)
        except JobError:
            life = self._life
            with life.changed:  # the thread that watches the workers knows why, or is about to
                life.changed.wait_for(lambda: life.has_ended or life.goes_back or life.returns > returns, _TOLD_S)
                life.changed.wait_for(lambda: life.has_ended or not life.goes_back)
            life.check_alive()
            if life.returns == returns:
                raise

    def _end(self, *, on_purpose: bool) -> None:
        self._workers.is_ending |= self._is_host
        super()._end(on_purpose=on_purpose)

    def _finish_after_failure(self, reason: str) -> None:
        # Other dataflows need this thread, which watches the workers.
        threading.Thread(target=self._attachments.finish, args=[reason], daemon=True).start()

    # ------------------------------------------------------------------ for the base class

    @property
    def is_complete(self) -> bool:
        """True if every worker is complete and no attachment needs the job any more."""
        is_idle = self._link is not None and all(status.phase is Phase.COMPLETE for status in self._link.statuses)
        return is_idle and self._attachments.have_ended

    def _wait_for(
        self, condition: Callable[[], bool], what: str, timeout_s: float | None, probe: str | None = None
    ) -> None:
        missed: list[InputHandle] = []

        def is_over() -> bool:
            if self._life.has_ended or condition():
                return True
            missed[:] = self._handles.missed(self._feed)
            return bool(missed)

        self._life.check_alive()
        with self._life.changed:
            reached = self._life.changed.wait_for(
                is_over, _SILENT_S if timeout_s is None else min(timeout_s, _SILENT_S)
            )
        if not reached and timeout_s != 0 and (timeout_s is None or timeout_s > _SILENT_S):
            if probe is not None and self._feed.inputs.left_open:
                said = "job %r waits for %s, and inputs are open: advance or close() %s"
                _LOGGER.warning(said, self.name, what, self._feed.inputs.to_close, extra=about(self.name))
            with self._life.changed:
                reached = self._life.changed.wait_for(is_over, None if timeout_s is None else timeout_s - _SILENT_S)
        self._life.check_alive()
        self._handles.tell_of(missed)
        if not reached:
            raise self._timed_out(what, timeout_s, probe)

    def _fetch_captured(self, name: str) -> CapturedBatches:
        return CapturedOnWorkers(self.name, name, self._workers.actors)

    def _keep_captured(self) -> None:
        if self._workers.are_in_contact:
            super()._keep_captured()

    def _reports(self) -> Sequence[WorkerReport | BusyWorker]:
        return ask_workers(self._workers.actors, self.name)

    def _look(self, within_s: float) -> tuple[str, Sequence[WorkerReport | BusyWorker]]:
        return self._state, ask_workers(self._workers.actors, self.name, within_s)

    def _release(self) -> None:
        atexit.unregister(self._at_exit)
        with self._life.changed:
            self._life.changed.notify_all()
        if self._recovery is not None:
            self._recovery.close()
        if self._taker is not None:
            self._taker.close()
        if self._link is not None:
            self._link.close()
        if self._is_host:
            self._workers.release()
        else:
            self._workers.drop(self.name)


def _pack(plan: Plan) -> Any:
    import ray

    CLASSES.pickle_anew()
    try:
        return ray.put(plan)
    except Exception:
        functions = [
            (part.name, part.transform if isinstance(part, Stage) else part.build)
            for operator in plan.operators
            for part in operator.stages or (operator,)
        ]
        for name, function in functions:
            reason = unpicklable(function)
            if reason is not None:
                way = way_to_unpicklable(function)
                found = f", found at {way}" if way else ""
                raise GraphError(
                    f"operator {name!r} cannot be pickled, so it cannot be sent to the workers: {reason}{found}. "
                    "Make what its function uses inside the function, or in build()"
                ) from None  # Ray's own error has a page of text
        raise
