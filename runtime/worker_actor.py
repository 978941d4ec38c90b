"""The Ray actor that hosts one worker."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidewheel.runtime.allocator import keep_freed_memory
from tidewheel.runtime.envelope import DRIVER, Envelope
from tidewheel.runtime.labelled_output import LabelledOutput
from tidewheel.runtime.links.link import Receiver, Sender
from tidewheel.runtime.links.packed_batch import pack
from tidewheel.runtime.links.ray_link import CallReceiver, RaySender
from tidewheel.runtime.links.socket_keys import SocketKeys
from tidewheel.runtime.links.socket_link import SocketAddress, SocketReceiver, SocketSender
from tidewheel.runtime.plan import Plan
from tidewheel.runtime.runtime_config import RuntimeConfig
from tidewheel.runtime.worker_loop import WorkerLoop
from tidewheel.runtime.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.worker_status import WorkerStatus

CONCURRENT_CALLS = 8
"""Calls run on threads and in any order: envelopes are numbered, and `watch` may wait while others are answered."""

_MEET_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class SocketPeers:
    """What a worker needs to know to reach its peers over sockets: where they listen, and the keys of the job."""

    addresses: Sequence[SocketAddress]
    keys: SocketKeys


class WorkerActor:
    """Hosts one worker. The driver deploys, starts and watches it; its peers and the driver send it envelopes."""

    def __init__(self, worker: int, workers: int, job: str) -> None:
        self._worker = worker
        self._workers = workers
        self._job = job
        keep_freed_memory()
        self._sockets: SocketReceiver | None = None
        self._loop: WorkerLoop | None = None

    def __repr__(self) -> str:
        """Ray puts this before each line of output that it brings to the driver."""
        return f"{self._job} worker {self._worker}"

    def listen(self) -> SocketAddress:
        """Open a socket for members on this node; return where it is."""
        import ray

        self._sockets = SocketReceiver(ray.get_runtime_context().get_node_id())
        return self._sockets.withdraw_file()

    def listen_to_other_nodes(self, keys: SocketKeys) -> SocketAddress:
        """Listen to members on other nodes too; return where."""
        import ray

        assert self._sockets is not None, "a worker listens within its node first"
        return self._sockets.listen_to_other_nodes(ray.util.get_node_ip_address(), keys)

    def deploy(
        self,
        plan: Plan,
        attachments: Mapping[str, Any],
        peers: Sequence[Any] | SocketPeers,
        incarnation: int,
        config: RuntimeConfig,
    ) -> int:
        """Connect to the peers, which are actors or sockets, and build this worker's share of the operators.

        Returns the process id. Envelopes may come from now on.
        """
        sender, receiver = self._connect(peers, incarnation)
        self._loop = WorkerLoop(plan, self._worker, self._workers, attachments, sender, receiver, incarnation, config)
        sys.stdout = LabelledOutput(sys.stdout, self._loop.label)
        sys.stderr = LabelledOutput(sys.stderr, self._loop.label)
        return os.getpid()

    def _connect(self, peers: Sequence[Any] | SocketPeers, incarnation: int) -> tuple[Sender, Receiver]:
        if not isinstance(peers, SocketPeers):
            return RaySender(peers), CallReceiver()
        assert self._sockets is not None, "a worker listens before it connects"
        addresses = {peer: address for peer, address in enumerate(peers.addresses) if peer != self._worker}
        node, context = self._sockets.address.node, self._sockets.context
        sender = SocketSender(self._worker, node, addresses, peers.keys, incarnation, context)
        self._sockets.meet([DRIVER, *addresses], _MEET_TIMEOUT_S)
        return sender, self._sockets

    def start(self) -> None:
        """Let the worker run."""
        self._deployed.start()

    def receive(self, envelope: Envelope) -> None:
        """Take an envelope from a peer or the driver."""
        self._deployed.deliver(envelope)

    def watch(self, seen: int, timeout: float) -> WorkerStatus:
        """Return the status once it differs from version ``seen``, after ``timeout`` seconds in any case."""
        return self._deployed.watch(seen, timeout)

    def report(self, timeout: float) -> WorkerReport | BusyWorker:
        """Return what the worker says of itself, within ``timeout`` seconds."""
        return self._deployed.report(timeout)

    def captured(self, name: str) -> list[tuple[Any, Any]]:
        """Return what was captured on this worker, packed."""
        return [(time, pack(batch)) for time, batch in self._deployed.captured(name)]

    @property
    def _deployed(self) -> WorkerLoop:
        assert self._loop is not None, "a worker is deployed before anything else"
        return self._loop
