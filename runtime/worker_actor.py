"""The Ray actor that hosts one worker."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tidewheel.progress import SpreadName
from tidewheel.runtime.envelope import Envelope
from tidewheel.runtime.packed_batch import pack
from tidewheel.runtime.plan import Plan
from tidewheel.runtime.ray_link import RayLink
from tidewheel.runtime.worker_loop import WorkerLoop
from tidewheel.runtime.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.worker_status import WorkerStatus

CONCURRENT_CALLS = 8
"""Calls run on threads and in any order: envelopes are numbered, and `watch` may wait while others are answered."""


class WorkerActor:
    """Hosts one worker. The driver deploys, starts and watches it; its peers and the driver send it envelopes."""

    def __init__(self, worker: int, workers: int) -> None:
        self._worker = worker
        self._workers = workers
        self._loop: WorkerLoop | None = None

    def deploy(
        self,
        plan: Plan,
        attachments: Mapping[str, Any],
        peers: Sequence[Any],
        incarnation: int,
        progress: SpreadName,
    ) -> int:
        """Build this worker's share of the operators; return the process id. Envelopes may come from now on."""
        link = RayLink(peers)
        self._loop = WorkerLoop(plan, self._worker, self._workers, attachments, link, incarnation, progress)
        return os.getpid()

    def start(self) -> None:
        """Let the worker run."""
        self._deployed.start()

    def receive(self, envelope: Envelope) -> None:
        """Take an envelope from a peer or the driver."""
        self._deployed.receive(envelope)

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
