"""The Ray actor that hosts one worker: its share of one dataflow, or of several."""

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from tidewheel.batches.batches import pack
from tidewheel.host.log_lines import LogSettings, about
from tidewheel.host.process_memory import collect_rarely, keep_freed_memory
from tidewheel.host.program_classes import CLASSES
from tidewheel.host.recent_lines import RecentLines
from tidewheel.host.until import until
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.errors import JobError, lost_peers_fail_the_job
from tidewheel.runtime.inputs.asking import ask_workers
from tidewheel.runtime.inputs.door import Outcome, Posting
from tidewheel.runtime.inputs.feeders import Claim
from tidewheel.runtime.messages.envelope import ENVELOPES, Envelope
from tidewheel.runtime.messages.feeder_status import FeederName
from tidewheel.runtime.messages.questions import Answer, Question
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.snapshots.entries import Process
from tidewheel.runtime.snapshots.errors import SnapshotDamaged
from tidewheel.runtime.snapshots.this_process import is_running, this_process
from tidewheel.runtime.snapshots.worker_snapshots import WorkerSnapshots
from tidewheel.runtime.state.saved_worker import WorkerBeginning
from tidewheel.runtime.worker.labelled_output import LabelledOutput
from tidewheel.runtime.worker.worker_loop import Connect, WorkerLoop
from tidewheel.transport.link import Receiver, Sender
from tidewheel.transport.ray_link import CallReceiver, RaySender
from tidewheel.transport.socket_address import DRIVER, SocketAddress, SocketKeys, SocketPeers
from tidewheel.transport.socket_link import SocketReceiver, SocketSender
from tidewheel.transport.socket_listener import listen_here

_LOOK_S = 0.02

CONCURRENT_CALLS = 32
"""The most calls that run at once.

They may run in any order, since envelopes are numbered; waiting calls leave room for others.
"""

_MEET_TIMEOUT_S = 30.0
_MOST_DROPPED = 1000
"""How many dropped dataflows are remembered, for calls that come late."""


@dataclass(frozen=True, slots=True)
class JobParts:
    """The names in a dataflow that other processes may use.

    Attributes:
        incarnation: changes when the job returns to a snapshot.
        goes_back: whether the job keeps snapshots, to which it may return.
        inputs: the names of the inputs that the driver's handles feed.
        lookups: the operators that look-ups ask, by name.
    """

    incarnation: int
    goes_back: bool
    inboxes: tuple[str, ...]
    inputs: tuple[str, ...]
    lookups: Mapping[str, int]


class WorkerActor:
    """Hosts one worker. The driver deploys, starts and watches it; peers and feeders send it envelopes.

    Each dataflow has its own thread and links here. Calls name a dataflow by its job.
    """

    def __init__(self, worker: int, workers: int, operators: int, job: str, logs: LogSettings) -> None:
        self._worker = worker
        self._workers = workers
        self._operators = operators
        self._job = job
        CLASSES.is_worker = True
        keep_freed_memory()
        collect_rarely()
        self._beginnings: dict[str, WorkerBeginning | None] = {}
        self._sockets: dict[str, SocketReceiver[Envelope]] = {}
        self._loops: dict[str, WorkerLoop] = {}
        self._dropped: deque[str] = deque(maxlen=_MOST_DROPPED)
        self._locks: dict[str, threading.Lock] = {}
        self._wanted: set[str] = set()
        self._is_wanted = threading.Event()
        self._waiting = threading.Semaphore(CONCURRENT_CALLS // 2)
        self._lines = RecentLines(self._about)
        self._lines.follow()
        bare = sys.stderr
        sys.stdout = LabelledOutput(sys.stdout, self._label)
        sys.stderr = LabelledOutput(bare, self._label)
        logs.use(self._about, bare)

    def __repr__(self) -> str:
        """Return the label for Ray's dashboard and, in the driver, for each line of output."""
        dataflow = self._job.rpartition("-")[0]
        return f"{dataflow} worker {self._worker} of {self._workers}, {self._operators} operators"

    def _here(self) -> tuple[str, str | None]:
        for job, loop in list(self._loops.items()):
            if (running := loop.here()) is not None:
                return job, running.operator
        return self._job, None

    def _label(self) -> str:
        _, operator = self._here()
        return "" if operator is None else f"[{operator}] "

    def _about(self) -> dict[str, object]:
        job, operator = self._here()
        return about(job, operator=operator, worker=self._worker)

    # ------------------------------------------------------------------ coming and going

    def process(self, before: Process | None = None) -> Process:
        """Return the identity of this process.

        First wait until the process ``before`` has ended, if it is visible here.
        """
        if before is not None:
            until(lambda: not is_running(before), within_s=inf, every_s=_LOOK_S)  # its caller has a deadline
        return this_process()

    def listen(self, job: str, keys: SocketKeys | None) -> SocketAddress:
        """Listen for members on this node and, with ``keys``, on other nodes; return the address."""
        with lost_peers_fail_the_job():
            sockets = self._sockets[job] = SocketReceiver(listen_here(keys), ENVELOPES)
        return sockets.listener.address

    def read(self, job: str, plan: Plan, snapshots: WorkerSnapshots) -> SnapshotDamaged | None:
        with self._deploying(job):
            try:
                self._beginnings[job] = snapshots.beginning(plan, self._worker, self._workers)
            except SnapshotDamaged as damaged:
                return damaged
        return None

    def deploy(
        self,
        job: str,
        plan: Plan,
        attachments: Mapping[str, Any],
        peers: Sequence[Any] | SocketPeers,
        incarnation: int,
        config: RuntimeConfig,
        nodes: Sequence[str],
        snapshots: WorkerSnapshots | None,
    ) -> None:
        """Connect to the peers, given as actors or as sockets, and build this worker's part of each operator.

        Envelopes may arrive from now on.
        """
        with self._deploying(job):
            if job in self._dropped:  # calls may overtake each other
                raise JobError(f"job {job!r} was dropped before it was deployed")
            link = self._connect(job, peers, incarnation)
            self._loops[job] = WorkerLoop(
                plan,
                self._worker,
                self._workers,
                attachments,
                *link,
                incarnation=incarnation,
                config=config,
                nodes=nodes,
                snapshots=snapshots,
                beginning=self._beginnings.pop(job, None),
            )
        if job in self._dropped:
            self.drop(job, 0.0)

    def _deploying(self, job: str) -> threading.Lock:
        return self._locks.setdefault(job, threading.Lock())

    def _connect(
        self, job: str, peers: Sequence[Any] | SocketPeers, incarnation: int
    ) -> tuple[Sender[Envelope], Receiver[Envelope], Connect]:
        if not isinstance(peers, SocketPeers):
            calls = RaySender(peers, job, ENVELOPES)
            return calls, CallReceiver(), lambda addresses: calls
        sockets = self._sockets[job]
        addresses = {peer: address for peer, address in enumerate(peers.addresses) if peer != self._worker}

        def connect(addresses: Mapping[int, SocketAddress]) -> Sender[Envelope]:
            return SocketSender(
                self._worker,
                sockets.listener.address.node,
                addresses,
                peers.keys,
                incarnation,
                ENVELOPES,
                sockets.listener.context,
            )

        sender = connect(addresses)
        with lost_peers_fail_the_job():
            sockets.meet([*addresses, DRIVER], _MEET_TIMEOUT_S)
        return sender, sockets, connect

    def start(self, job: str) -> None:
        self._loop(job).start()

    def drop(self, job: str, timeout_s: float) -> str | None:
        """End a dataflow. If it does not end within ``timeout_s`` seconds, return in words what it is doing."""
        self._dropped.append(job)
        sockets = self._sockets.get(job)
        if sockets is not None:
            sockets.give_up()
        lock = self._deploying(job)
        if not lock.acquire(timeout=timeout_s):
            return "building its operators"
        loop = self._loops.pop(job, None)
        self._sockets.pop(job, None)
        self._beginnings.pop(job, None)
        self._locks.pop(job, None)
        lock.release()
        if loop is not None:
            if loop.close(timeout_s):
                return None
            operator = loop.running().operator
            return "about to end" if operator is None else f"in operator {operator!r}"
        if sockets is not None:
            sockets.close()
        return None

    def leave(self, job: str, timeout_s: float) -> str | None:
        """End a dataflow as `drop` does, but let it be deployed again."""
        busy = self.drop(job, timeout_s)
        self._dropped.remove(job)
        return busy

    # ------------------------------------------------------------------ while it runs

    def receive(self, job: str, frames: Sequence[Any]) -> None:
        envelope = ENVELOPES.decode(frames[0], frames[1:])
        self._deployment(job, envelope.incarnation).deliver(envelope)

    def fetch(self, job: str, member: int, timeout_s: float) -> Sequence[Any]:
        """Return the frames of envelopes for a feeder; wait for an envelope at most ``timeout_s`` seconds."""
        return self._loop(job).mail.fetch(member, timeout_s)

    def live(self, timeout_s: float) -> tuple[str, ...]:
        """Return after ``timeout_s`` seconds, as a sign of life.

        If other processes request the telemetry of jobs, return the jobs' names at once.
        """
        if not timeout_s or not self._is_wanted.wait(timeout_s):
            return ()
        self._is_wanted.clear()
        wanted, self._wanted = self._wanted, set()
        return tuple(wanted)

    def want_telemetry(self, job: str) -> bool:
        """Let the driver publish the telemetry of a dataflow; return whether it runs here."""
        if job not in self._loops:
            return False
        self._wanted.add(job)
        self._is_wanted.set()
        return True

    def report(self, job: str, timeout_s: float) -> WorkerReport | BusyWorker:
        return replace(self._loop(job).report(timeout_s), lines=self._lines.of(job))

    def states(self) -> dict[str, tuple[str, str]]:
        return {job: loop.state() for job, loop in list(self._loops.items())}

    def parts(self, job: str) -> JobParts:
        """Return the names in a dataflow that other processes may use."""
        loop = self._loop(job)
        plan = loop.plan
        return JobParts(loop.incarnation, loop.is_saved, tuple(loop.doors), tuple(plan.inputs), dict(plan.lookups))

    def leave_postings(self, job: str, incarnation: int, name: str, postings: Sequence[Posting]) -> list[Outcome]:
        return self._deployment(job, incarnation).doors[name].leave(postings)

    def saved_postings(self, job: str, incarnation: int, name: str) -> int:
        """Return how many of the postings left at an inbox's door are in a snapshot."""
        return self._deployment(job, incarnation).doors[name].saved

    def ask(self, job: str, incarnation: int, question: Question, within_s: float) -> Answer | None:
        """Return the answer to a question about operators' state; None if it does not come in time, or too many ask."""
        loop = self._deployment(job, incarnation)
        if question.keys is None:
            return loop.ask(question, 0.0)
        if not self._waiting.acquire(blocking=False):
            return None
        try:
            return loop.ask(question, within_s)
        finally:
            self._waiting.release()

    def explain(self, job: str, name: str, workers: Sequence[Any]) -> str:
        return self._loop(job).explain(name, ask_workers(workers, job))

    def captured(self, job: str, name: str) -> tuple[list[tuple[Any, Any]], int]:
        kept = self._loop(job).captured(name)
        return [(time, pack(batch)) for time, batch in kept], len(kept)

    def over_captured(
        self, job: str, name: str, count: int, make: Callable[..., Iterator[Any]], *arguments: Any
    ) -> Iterator[Any]:
        """Yield the items that ``make`` yields for the first ``count`` captured batches of this worker."""
        yield from make(self._loop(job).captured(name)[:count], *arguments)

    def claim(self, job: str, incarnation: int, handle: int, feeder: FeederName) -> Claim:
        return self._deployment(job, incarnation).feeders.claim(handle, feeder)

    def incarnation(self, job: str) -> int:
        return self._loop(job).incarnation

    def _deployment(self, job: str, incarnation: int) -> WorkerLoop:
        """Return the loop of a dataflow, unless the dataflow has gone back to a snapshot since the caller connected."""
        loop = self._loop(job)
        if incarnation != loop.incarnation:
            raise JobError(f"job {job!r} has gone back to a snapshot since, on worker {self._worker}")
        return loop

    def _loop(self, job: str) -> WorkerLoop:
        loop = self._loops.get(job)
        if loop is None:
            raise JobError(f"job {job!r} does not run on worker {self._worker} any more")
        return loop
