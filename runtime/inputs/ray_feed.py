"""The feed of a job that runs in Ray actors: a member of the link, in the driver's process or in another one."""

import threading
import time as clock
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidewheel.host.ray_cluster import left, membership, node_id
from tidewheel.progress import Antichain, TidewheelError, TimeDomain
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.errors import JobError, lost_peers_fail_the_job
from tidewheel.runtime.inputs.feed import Admission, Domains, Feed
from tidewheel.runtime.messages.envelope import ENVELOPES, Envelope
from tidewheel.runtime.messages.feeder_status import FeederStatus, Phase, WorkerStatus
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.messages.written_part import WrittenPart
from tidewheel.transport.link import PeerLost, Receiver
from tidewheel.transport.ray_link import FetchReceiver, RaySender
from tidewheel.transport.socket_address import DRIVER, SocketAddress, SocketPeers
from tidewheel.transport.socket_link import SocketReceiver, SocketSender
from tidewheel.transport.socket_listener import listen_here

_QUIET_S = 0.2
_LOOK_S = 1.0
_END_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class FeedAddress:
    """Where a dataflow is fed.

    Attributes:
        job: the name of its job.
        actors: the workers.
        sockets: where they listen, None if they take nothing but calls.
        inputs: their domains.
        probes: the domains of its outermost probes.
        config: the limits.
        incarnation: that of the workers; it changes when the job goes back to a snapshot.
        keeps_snapshots: whether it takes some, and ``goes_back``, whether it goes back to the last where a worker dies.
    """

    job: str
    actors: Sequence[Any]
    sockets: SocketPeers | None
    inputs: Domains
    probes: Domains
    config: RuntimeConfig
    incarnation: int = 0
    keeps_snapshots: bool = False
    goes_back: bool = False


class RayFeed(Feed):
    """Sends commands to the workers, and receives their statuses on a thread of its own.

    Args:
        address: of the dataflow.
        number: by which envelopes name this feeder.
        lock: what to hold while an input, or the sender, is used.
        changed: notified when a status has come.
    """

    def __init__(self, address: FeedAddress, number: int, lock: threading.RLock, changed: threading.Condition) -> None:
        super().__init__(number, len(address.actors), lock, address.config, address.probes)
        self._address = address
        self.incarnation = address.incarnation
        self._joined = membership()
        self._changed = changed
        self._given_up: str | None = None
        self._is_closed = False
        self._news = [0] * self.workers
        self.statuses = [WorkerStatus(Phase.RUNNING)] * self.workers
        self._thread = threading.Thread(target=self._run, name=f"tidewheel-feed-{address.job}", daemon=True)
        self._listens_at: SocketAddress | None = None
        self._receiver: Receiver[Envelope]
        self._connect()

    def _connect(self) -> None:
        node, job, sockets = node_id(), self._address.job, self._address.sockets
        if sockets is None or not sockets.reachable_from(node):
            self._receiver = FetchReceiver(self._address.actors, job, self.number, ENVELOPES)
            self.sender = RaySender(self._address.actors, job, ENVELOPES)
            return
        keys, peers = sockets.keys, dict(enumerate(sockets.addresses))
        with lost_peers_fail_the_job():
            listener = listen_here(keys if any(peer.node != node for peer in peers.values()) else None)
        receiver = SocketReceiver(listener, ENVELOPES)
        self._receiver, self._listens_at = receiver, listener.address
        sender = SocketSender(
            self.number, node, peers, keys, self.incarnation, ENVELOPES, listener.context, copies=True
        )
        self.sender = sender
        if self.number != DRIVER:
            sender.patience_s = 0.0  # only the driver is told why a worker has gone

    def join(self, answers_by: float | None = None) -> None:
        """Have the workers tell their statuses, and receive them from now on.

        Args:
            answers_by: until when to wait until each has, on the monotonic clock; None does not wait.

        Raises:
            JobError: a worker has not, or the job has failed meanwhile.
        """
        for worker in range(self.workers):
            self._tell(worker)
        self._thread.start()
        if answers_by is None:
            return
        with self._changed:
            left_s = max(0.0, answers_by - clock.monotonic())
            self._changed.wait_for(lambda: all(self._news) or self._is_closed, left_s)
        self.check_alive()
        missing = ", ".join(str(worker) for worker, news in enumerate(self._news) if not news)
        if missing:
            raise JobError(
                f"job {self._address.job!r}: nothing came from worker {missing}: can the nodes reach each other on any "
                "port? link='ray' uses Ray's own connections"
            )

    def give_up(self) -> None:
        """Have `join` wait no longer; from any thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """Disconnect, and receive nothing more; from any thread. Idempotent."""
        self._is_closed = True
        self._receiver.wake()
        if self._thread.ident is None:
            self._disconnect()
        elif self._thread is not threading.current_thread():
            self._thread.join(_END_TIMEOUT_S)

    # ------------------------------------------------------------------ for handles

    def frontier(self, probe: str, domain: TimeDomain) -> Antichain:
        """Return the frontier at a probe, as worker 0 last told it."""
        return Antichain.from_minimal(domain, self.statuses[0].probes.get(probe, [domain.minimum()]))

    def wait(self, condition: Callable[[], bool], timeout: float | None) -> Admission:
        """Wait until ``condition()`` holds, or nothing is left for the workers to do."""
        deadline = None if timeout is None else clock.monotonic() + timeout
        before: list[int | None] = [None]
        while True:
            if self._wait_for_news(condition, _QUIET_S if deadline is None else deadline - clock.monotonic()):
                return Admission.ROOM
            if deadline is not None and clock.monotonic() >= deadline:
                return Admission.TIMED_OUT
            # The steps of each worker; None for one that has something to do, or has not answered.
            steps = [one.steps if one.heard >= self.told[at] else None for at, one in enumerate(self.statuses)]
            before, earlier = steps, before
            if before == earlier and None not in before:
                return Admission.LET_IN
            for worker in range(self.workers):
                self._tell(worker)

    def _wait_for_news(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``condition()`` holds, at most so long, and no longer than until the job has ended."""
        deadline = clock.monotonic() + min(seconds, _QUIET_S)
        while True:
            seen = sum(self._news)
            if condition():
                return True
            # Not while the condition is looked at: it may want a lock that somebody holds who wants to notify.
            with self._changed:
                if sum(self._news) == seen and not self._changed.wait(deadline - clock.monotonic()):
                    self.check_alive()
                    return False

    def ticket(self, name: str, handle: int, position: InputPosition) -> tuple[Any, ...]:
        """Return what a handle is pickled as."""
        from tidewheel.runtime.inputs.remote_feed import take_over

        return take_over, (self._address, name, handle, position, self.snapshot)

    def _taken(self, worker: int) -> int:
        return self.statuses[worker].taken

    def _tell(self, worker: int, *, is_leaving: bool = False) -> None:
        """Tell a worker the status of this feeder; it answers with its own."""
        with self.lock:
            if not self._is_closed:
                status = FeederStatus(self._listens_at, self.statistics(), self._given_up, is_leaving)
                self.send(worker, self._envelope(worker, status=status))

    # ------------------------------------------------------------------ on the thread

    def _run(self) -> None:
        next_look = 0.0
        try:
            while not self._is_closed:
                self._receive(_LOOK_S)
                if clock.monotonic() >= next_look:
                    next_look = clock.monotonic() + _LOOK_S
                    self._look()
                self._go_on()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - Ray raises SystemExit where it is shut down
            self._lose(self._ended(error))
        finally:
            self._disconnect()

    def _receive(self, timeout_s: float) -> None:
        """Receive statuses; one that is older than the last of its worker is late, and changes nothing."""
        for envelope in self._receiver.receive(timeout_s):
            worker, number, status = envelope.sender, envelope.sequence, envelope.status
            if not isinstance(status, WorkerStatus):
                continue  # a greeting
            if status.written is not None:
                self._written(status.written)
            if status.answer is not None:
                with self._changed:
                    self.hear(status.answer)
                    self._changed.notify_all()
            if envelope.snapshot > self.snapshot:
                self._snapshot_begun(envelope.snapshot)
            if status.failure is not None:
                self._lose(status.failure)
            elif self._news[worker] < number:
                with self._changed:
                    self.statuses[worker] = status
                    self._news[worker] = number
                    self._changed.notify_all()

    def _look(self) -> None:
        """Look for connections that have broken, every second."""
        try:
            with self.lock:
                if not self._is_closed:
                    self.sender.check()
        except PeerLost:
            self._receive(0.0)  # a worker that has failed may have said why before it went
            raise

    def _written(self, part: WrittenPart) -> None:
        """Receive the report on a part of a snapshot; only the driver gets any."""

    def _snapshot_begun(self, number: int) -> None:
        """Hear that a worker has begun a snapshot; the driver knows, as it begins them all."""

    def _go_on(self) -> None:
        """Do what may be to be done after a status has come, or after a wake-up."""

    def _disconnect(self) -> None:
        with self.lock:
            self._is_closed = True
            self.sender.close()
        self._receiver.close()
        with self._changed:
            self._changed.notify_all()

    def _ended(self, error: BaseException) -> JobError:
        cause = getattr(error, "cause", None) or error
        reason = left(self._joined) or (cause if isinstance(cause, TidewheelError) else repr(cause))
        worker = getattr(cause, "worker", None)
        return JobError(f"job {self._address.job!r}, which this process feeds, has ended: {reason}", worker=worker)

    @abstractmethod
    def _lose(self, error: Exception) -> None:
        """Take note that the job has failed, or that the link has broken; from any thread."""
