"""All workers of a dataflow in one process, stepped in turn, for benchmarks that count what they send each other."""

from collections import deque

from tidewheel.progress import SpreadName
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.messages.envelope import Envelope, InputCommand
from tidewheel.runtime.worker.worker_core import WorkerCore
from tidewheel.transport.socket_address import DRIVER


class SteppedWorkers:
    """The cores of a plan, and envelopes on their way.

    Attributes:
        cores: by the number of the worker.
    """

    def __init__(self, plan: Plan, workers: int, progress: SpreadName, *, hold_back: bool = True) -> None:
        self.cores = [
            WorkerCore(plan, worker, workers, progress=progress, hold_back=hold_back) for worker in range(workers)
        ]
        self._links: list[deque[Envelope]] = [deque() for _ in range(workers)]
        self._sequences = [0] * workers

    def command(self, worker: int, command: InputCommand) -> None:
        """Send a command to one worker's share of an input."""
        self._links[worker].append(Envelope(DRIVER, 0, self._sequences[worker], commands=[command]))
        self._sequences[worker] += 1

    def run(self) -> None:
        """Step all workers in turn until nothing is left to do."""
        while any(self._links) or not all(core.is_idle for core in self.cores):
            for worker, core in enumerate(self.cores):
                arrived, self._links[worker] = self._links[worker], deque()
                for envelope in arrived:
                    core.receive(envelope)
                for peer, envelope in core.step():
                    self._links[peer].append(self.carry(envelope))
                    self.count(worker, peer, envelope)

    def carry(self, envelope: Envelope) -> Envelope:
        """Return what arrives of an envelope: by default that itself."""
        return envelope

    def count(self, worker: int, peer: int, envelope: Envelope) -> None:
        """Look at what one worker sends another: by default nothing is counted."""
