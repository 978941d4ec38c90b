"""The link of one feeding process to the workers of a Ray job.

Commands go to the workers. A thread receives the workers' statuses.
"""

import threading
import time as clock
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidewheel.host.ray_cluster import left, membership, node_id
from tidewheel.progress import Antichain, TidewheelError, TimeDomain
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.errors import JobError, lost_peers_fail_the_job
from tidewheel.runtime.inputs.asking import Asking
from tidewheel.runtime.inputs.feed import Admission, Domains
from tidewheel.runtime.messages.envelope import ENVELOPES, Envelope
from tidewheel.runtime.messages.feeder_status import Phase, WorkerStatus
from tidewheel.runtime.messages.written_part import WrittenPart
from tidewheel.transport.link import PeerLost, Receiver, Sender
from tidewheel.transport.ray_link import FetchReceiver, RaySender
from tidewheel.transport.socket_address import DRIVER, SocketAddress, SocketPeers
from tidewheel.transport.socket_link import SocketReceiver, SocketSender
from tidewheel.transport.socket_listener import listen_here

_QUIET_S = 0.2
_LOOK_S = 1.0
_END_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class FeedAddress:
    """The address of a dataflow's inputs.

    Attributes:
        sockets: where the workers listen; None if they only receive calls.
        incarnation: the workers' incarnation, which changes when the job returns to a snapshot.
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


@dataclass(frozen=True, slots=True)
class LinkEnds:
    """The two ends of a link in this process.

    Attributes:
        listens_at: where the receiver listens; None if it receives by calls.
    """

    sender: Sender[Envelope]
    receiver: Receiver[Envelope]
    listens_at: SocketAddress | None = None


def link_ends(address: FeedAddress, number: int) -> LinkEnds:
    node, job, sockets = node_id(), address.job, address.sockets
    if sockets is None or not sockets.reachable_from(node):
        receiver = FetchReceiver(address.actors, job, number, ENVELOPES)
        return LinkEnds(RaySender(address.actors, job, ENVELOPES), receiver)
    keys, peers = sockets.keys, dict(enumerate(sockets.addresses))
    with lost_peers_fail_the_job():
        listener = listen_here(keys if any(peer.node != node for peer in peers.values()) else None)
    sender = SocketSender(number, node, peers, keys, address.incarnation, ENVELOPES, listener.context, copies=True)
    if number != DRIVER:
        sender.patience_s = 0.0  # only the driver learns why a worker has gone
    return LinkEnds(sender, SocketReceiver(listener, ENVELOPES), listener.address)


class LinkedFeed(Protocol):
    """The feed that uses a link. The link's thread calls all methods except the first two."""

    lock: threading.RLock
    told: Counter[int]
    questions: Asking

    def check_alive(self) -> None:
        """Raise an error if the job has ended, or now has another feed."""

    def tell(self, worker: int) -> None:
        """Send a worker the status of this feeder. The worker replies with its own status."""

    def written(self, part: WrittenPart) -> None:
        """Receive the report on a worker's part of a snapshot; only in the driver."""

    def snapshot_begun(self, number: int) -> None: ...

    def look(self) -> None:
        """Called about once a second."""

    def go_on(self) -> None:
        """Called after a status or a wake-up."""

    def lose(self, error: Exception) -> None:
        """Record that the job has failed, or that the link is broken; thread-safe."""

    def disconnected(self) -> None:
        """Called when the thread ends."""


class FeedLink:
    """Sends envelopes to the workers, and receives their statuses on a thread.

    Attributes:
        statuses: the last status of each worker.
    """

    def __init__(self, feed: LinkedFeed, address: FeedAddress, ends: LinkEnds, changed: threading.Condition) -> None:
        self._feed = feed
        self._address = address
        self._ends = ends
        self._changed = changed
        self._joined = membership()
        self._workers = range(len(address.actors))
        self._news = [0] * len(self._workers)
        self._thread = threading.Thread(target=self._run, name=f"tidewheel-feed-{address.job}", daemon=True)
        self.statuses = [WorkerStatus(Phase.RUNNING)] * len(self._workers)
        self.is_closed = False

    @property
    def listens_at(self) -> SocketAddress | None:
        """The address of the receiver; None if envelopes are fetched by calls."""
        return self._ends.listens_at

    @property
    def has_joined(self) -> bool:
        return self._thread.ident is not None

    def join(self, answers_by: float | None = None) -> None:
        """Ask the workers for their statuses, and receive statuses from now on.

        Raises:
            JobError: a worker did not answer, or the job failed during the call.
        """
        for worker in self._workers:
            self._feed.tell(worker)
        self._thread.start()
        if answers_by is None:
            return
        with self._changed:
            left_s = max(0.0, answers_by - clock.monotonic())
            self._changed.wait_for(lambda: all(self._news) or self.is_closed, left_s)
        self._feed.check_alive()
        missing = ", ".join(str(worker) for worker, news in enumerate(self._news) if not news)
        if missing:
            raise JobError(
                f"job {self._address.job!r}: nothing came from worker {missing}: can the nodes reach each other on any "
                "port? link='ray' uses Ray's own connections"
            )

    def give_up(self) -> None:
        """Let `join` stop waiting; thread-safe."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """Disconnect; thread-safe, idempotent."""
        self.end()
        if not self.has_joined:
            self._disconnect()
        elif self._thread is not threading.current_thread():
            self._thread.join(_END_TIMEOUT_S)

    def end(self) -> None:
        """Let the thread disconnect soon; thread-safe."""
        self.is_closed = True
        self.wake()

    def wake(self) -> None:
        """Let the thread call `LinkedFeed.go_on` soon; thread-safe."""
        self._ends.receiver.wake()

    # ------------------------------------------------------------------ for the feed

    def send(self, worker: int, envelope: Envelope) -> int:
        """Send a worker an envelope; return its size in bytes. The caller holds the feed's lock."""
        with lost_peers_fail_the_job():
            return self._ends.sender.send(worker, envelope)

    def frontier(self, probe: str, domain: TimeDomain) -> Antichain:
        return Antichain.from_minimal(domain, self.statuses[0].probes.get(probe, [domain.minimum()]))

    def wait(self, condition: Callable[[], bool], timeout_s: float | None) -> Admission:
        deadline = None if timeout_s is None else clock.monotonic() + timeout_s
        before: list[int | None] = [None]
        while True:
            if self._wait_for_news(condition, _QUIET_S if deadline is None else deadline - clock.monotonic()):
                return Admission.ROOM
            if deadline is not None and clock.monotonic() >= deadline:
                return Admission.TIMED_OUT
            # By worker, its number of steps; None for a worker that has work, or has not answered.
            steps = [one.steps if one.heard >= self._feed.told[at] else None for at, one in enumerate(self.statuses)]
            before, earlier = steps, before
            if before == earlier and None not in before:
                return Admission.LET_IN
            for worker in self._workers:
                self._feed.tell(worker)

    def _wait_for_news(self, condition: Callable[[], bool], seconds: float) -> bool:
        deadline = clock.monotonic() + min(seconds, _QUIET_S)
        while True:
            seen = sum(self._news)
            if condition():
                return True
            # Not while the condition is checked: the check may need a lock whose holder wants to notify.
            with self._changed:
                if sum(self._news) == seen and not self._changed.wait(deadline - clock.monotonic()):
                    self._feed.check_alive()
                    return False

    # ------------------------------------------------------------------ on the thread

    def _run(self) -> None:
        next_look = 0.0
        try:
            while not self.is_closed:
                self._receive(_LOOK_S)
                if clock.monotonic() >= next_look:
                    next_look = clock.monotonic() + _LOOK_S
                    self._look()
                self._feed.go_on()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - Ray raises SystemExit where it is shut down
            self._feed.lose(self.why_ended(error))
        finally:
            self._disconnect()

    def _receive(self, timeout_s: float) -> None:
        for envelope in self._ends.receiver.receive(timeout_s):
            worker, number, status = envelope.sender, envelope.sequence, envelope.status
            if not isinstance(status, WorkerStatus):
                continue  # a greeting
            if status.written is not None:
                self._feed.written(status.written)
            if status.answer is not None:
                with self._changed:
                    self._feed.questions.hear(status.answer)
                    self._changed.notify_all()
            self._feed.snapshot_begun(envelope.snapshot)
            if status.failure is not None:
                self._feed.lose(status.failure)
            elif self._news[worker] < number:
                with self._changed:
                    self.statuses[worker] = status
                    self._news[worker] = number
                    self._changed.notify_all()

    def _look(self) -> None:
        try:
            with self._feed.lock:
                if not self.is_closed:
                    self._ends.sender.check()
        except PeerLost:
            self._receive(0.0)  # a failed worker may have sent the reason before it ended
            raise
        self._feed.look()

    def _disconnect(self) -> None:
        with self._feed.lock:
            self.is_closed = True
            self._ends.sender.close()
        self._ends.receiver.close()
        with self._changed:
            self._changed.notify_all()
        self._feed.disconnected()

    def why_ended(self, error: BaseException) -> JobError:
        cause = getattr(error, "cause", None) or error
        reason = left(self._joined) or (cause if isinstance(cause, TidewheelError) else repr(cause))
        worker = getattr(cause, "worker", None)
        return JobError(f"job {self._address.job!r}, which this process feeds, has ended: {reason}", worker=worker)
