"""The Ray engine: a dataflow on worker actors, its own or those of the job to which it is added."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidewheel.progress import Antichain, GraphError, TidewheelError
from tidewheel.runtime.description.plan import Plan, Stage
from tidewheel.runtime.engines.captured import CapturedBatches, CapturedOnWorkers
from tidewheel.runtime.engines.job import Job
from tidewheel.runtime.engines.ray_workers import RayWorkers
from tidewheel.runtime.engines.runtime_config import RuntimeConfig
from tidewheel.runtime.engines.worker_news import WorkerNews
from tidewheel.runtime.errors import JobError, lost_peers_fail_the_job
from tidewheel.runtime.inputs.feed import Admission
from tidewheel.runtime.inputs.ray_feed import FeedAddress, RayFeed
from tidewheel.runtime.worker.envelope import Envelope
from tidewheel.runtime.worker.envelope_codec import ENVELOPES
from tidewheel.runtime.worker.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.worker.worker_status import Phase, WorkerStatus
from tidewheel.transport.attachment import Attachment, AttachmentHost
from tidewheel.transport.link import Sender
from tidewheel.transport.pickling import unpicklable
from tidewheel.transport.ray_cluster import connect
from tidewheel.transport.ray_link import RaySender
from tidewheel.transport.socket_address import DRIVER, SocketAddress, SocketPeers
from tidewheel.transport.socket_keys import SocketKeys
from tidewheel.transport.socket_link import SocketReceiver, SocketSender

_TOLD_WITHIN_S = 10.0


class RayJob(Job):
    """Runs each worker's share of the dataflow in a Ray actor; see `RayWorkers`.

    Args:
        plan, workers, attachments, paused, config: as for `run`.
        host: the workers of another job, on which to run; None makes some.
    """

    engine = "ray"

    def __init__(
        self,
        plan: Plan,
        workers: int,
        attachments: Mapping[str, Attachment],
        paused: bool,
        config: RuntimeConfig,
        host: RayWorkers | None = None,
    ) -> None:
        super().__init__(plan, workers, config)
        self._statuses: dict[int, WorkerStatus] = {}
        self._feed: _DriverFeed | None = None
        self._news: WorkerNews | None = None
        self._is_host = host is None
        connect(JobError)
        packed = _pack(plan)
        self._workers = host if host is not None else RayWorkers(self.name, plan.name, workers, config)
        try:
            self._attachments.start(
                attachments, AttachmentHost(self.name, self.engine, workers, nodes=self._workers.nodes)
            )
        except BaseException:
            self._release()
            raise
        try:
            if host is None:
                self._workers.come_up()
            self._deploy(packed, self._nodes_to_read_near(attachments))
            self._workers.host(self)
            if not paused:
                self.start()
        except BaseException:
            self._stopped = True
            self._attachments.finish(f"job {self.name!r} could not start")
            self._release()
            raise

    def _host(self, plan: Plan, attachments: Mapping[str, Attachment], paused: bool) -> Job:
        return RayJob(plan, self.workers, attachments, paused, self.config, self._workers)

    @property
    def pids(self) -> Sequence[int]:
        """The numbers of the workers' processes, by worker."""
        return self._workers.pids

    def _nodes_to_read_near(self, attachments: Mapping[str, Attachment]) -> Sequence[str]:
        """Return the workers' nodes as sources see them: none if another run has to give each worker the same."""
        if any(attachment.needs_same_batches for attachment in attachments.values()):
            return [""] * self.workers
        return self._workers.nodes

    def _deploy(self, packed: Any, nodes: Sequence[str]) -> None:
        by = time.monotonic() + self.config.deploy_timeout_s
        sender, sockets = self._connect(by)
        inputs = {name: self.plan.input_nesting(name).domain for name in self.plan.inputs}
        address = FeedAddress(self.name, self._workers.actors, sockets, inputs, self._outermost_probes, self.config)
        self._feed = _DriverFeed(self, address, sender)
        peers = self._workers.actors if sockets is None else sockets
        incarnation = int.from_bytes(os.urandom(6), "big")
        arguments = [
            (self.name, packed, self._attachments.handles_for(worker), peers, incarnation, self.config, nodes)
            for worker in range(self.workers)
        ]
        self._workers.call(self.name, "deploy", arguments, by)
        if self._news is not None:
            with lost_peers_fail_the_job():
                self._news.start(by)
        self._inputs.open(self.plan, self._feed)

    def _connect(self, by: float) -> tuple[Sender[Envelope], SocketPeers | None]:
        """Open the driver's end of the link; return what the workers need to open theirs, if it is sockets."""
        import ray

        if self.config.link == "ray":
            return RaySender(self._workers.actors, self.name, ENVELOPES), None
        node, keys = ray.get_runtime_context().get_node_id(), SocketKeys.make()
        each = [(self.name,)] * self.workers
        addresses: list[SocketAddress] = self._workers.call(self.name, "listen", each, by)
        receiver = SocketReceiver(node, ENVELOPES)
        self._news = WorkerNews(self, self._workers, receiver)
        driver = receiver.withdraw_file()
        if any(address.node != node for address in addresses):
            driver = receiver.listen_to_other_nodes(ray.util.get_node_ip_address(), keys)
            each_with_keys = [(self.name, keys)] * self.workers
            addresses = self._workers.call(self.name, "listen_to_other_nodes", each_with_keys, by)
        sender = SocketSender(DRIVER, node, dict(enumerate(addresses)), keys, 0, ENVELOPES, copies=True)
        return sender, SocketPeers(addresses, keys, driver)

    def start(self) -> None:
        """Let the workers run. Idempotent."""
        self._check_alive()
        with self._lock:
            if self._started:
                return
            self._started = True
        try:
            self._workers.start(self.name)
        except JobError:
            with self._changed:  # the thread that watches the workers knows why, or is about to
                self._changed.wait_for(lambda: self._has_ended, _TOLD_WITHIN_S)
            self._check_alive()
            raise

    def stop(self) -> None:
        """End the job, and all that were added to it."""
        if self._is_host:
            self._workers.is_ending = True
        super().stop()

    # ------------------------------------------------------------------ for the workers' watch

    def take(self, worker: int, status: WorkerStatus) -> None:
        """Receive the status of a worker; an older one than the last is late, and changes nothing."""
        if status.failure is not None:
            self._workers.fail(self, status.failure)
            return
        with self._changed:
            before = self._statuses.get(worker)
            if before is None or before.version < status.version:
                self._statuses[worker] = status
                self._changed.notify_all()

    def check(self) -> None:
        """Raise JobError if a publication has died, or a connection has broken."""
        self._attachments.check()
        if self._feed is not None:
            self._feed.check()

    def fail(self, error: TidewheelError) -> None:
        """End with an error."""
        self._fail(error)

    def _finish_after_failure(self, reason: str) -> None:
        finish = super()._finish_after_failure
        if self._is_host:
            finish(reason)
        else:  # the other dataflows need the thread that watches the workers
            threading.Thread(target=finish, args=[reason], daemon=True).start()

    # ------------------------------------------------------------------ for the base class

    @property
    def is_complete(self) -> bool:
        """Whether every worker has seen every frontier empty."""
        with self._changed:
            statuses = [self._statuses.get(worker) for worker in range(self.workers)]
            return all(status is not None and status.phase is Phase.COMPLETE for status in statuses)

    def _frontier(self, probe: str) -> Antichain:
        self._check_alive()
        assert self._feed is not None, "a job that is alive was deployed"
        return self._feed.frontier(probe, self._probe_domains[probe])

    def _wait_for(
        self, condition: Callable[[], bool], what: str, timeout: float | None, probe: str | None = None
    ) -> None:
        self._check_alive()
        with self._changed:
            reached = self._changed.wait_for(lambda: self._has_ended or condition(), timeout)
        self._check_alive()
        if not reached:
            raise self._timed_out(what, timeout, probe)

    def _fetch_captured(self, name: str) -> CapturedBatches:
        return CapturedOnWorkers(self.name, name, self._workers.actors)

    def _reports(self) -> Sequence[WorkerReport | BusyWorker]:
        assert self._feed is not None, "a job that is alive was deployed"
        return self._feed.reports()

    def _release(self) -> None:
        with self._changed:
            self._changed.notify_all()
        if self._is_host:
            self._workers.release()
        else:
            self._workers.drop(self.name)
        if self._feed is not None:
            self._feed.close()
        if self._news is not None:
            self._news.close()


class _DriverFeed(RayFeed):
    """Feeds the inputs of a job from its driver, which hears from the workers anyway."""

    def __init__(self, job: RayJob, address: FeedAddress, sender: Sender[Envelope]) -> None:
        super().__init__(address, DRIVER, sender, job._lock)
        self._job = job

    def wait(self, condition: Callable[[], bool], timeout: float | None) -> Admission:
        """Wait until ``condition()`` holds, or nothing is left for the workers to do."""
        if not self._job._started:
            return Admission.ROOM  # as much as there is memory: nothing runs while a job is paused
        return super().wait(condition, timeout)

    def abandon(self, name: str, reason: str) -> None:
        """Do nothing: the job knows its handles."""

    def fail(self, name: str, error: JobError) -> None:
        """Fail the job."""
        self._job._fail(error)

    def flush(self) -> None:
        """Do nothing: the job is over when this process is."""

    def check(self) -> None:
        """Raise JobError if a connection has broken."""
        with self.lock:
            if self.sender is not None:
                with lost_peers_fail_the_job():
                    self.sender.check()

    def close(self) -> None:
        """Disconnect."""
        with self.lock:
            if self.sender is not None:
                self.sender.close()
                self.sender = None

    def _check_alive(self) -> None:
        self._job._check_alive()

    def _status(self, worker: int) -> WorkerStatus | None:
        # Without a lock: whoever waits for news asks for it while holding ``_changed``, and others hold the feed's.
        return self._job._statuses.get(worker)

    def _wait_for_news(self, condition: Callable[[], bool], seconds: float) -> bool:
        with self._job._changed:
            return self._job._changed.wait_for(lambda: self._job._has_ended or condition(), seconds)


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
