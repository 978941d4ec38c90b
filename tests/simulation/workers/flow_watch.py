"""The check that bytes in flight count once each, at the worker that has to answer for them."""

from collections.abc import Sequence
from itertools import chain

from tests.kit.simulation.violation import ViolationError
from tests.simulation.network import Network
from tests.simulation.workers.truth import unreceived
from tests.simulation.workers.watch import Sent, Watch
from tidewheel.runtime.worker.worker_core import WorkerCore

_EVERY = 16
"""After so many steps the accounts are compared."""


class FlowWatch(Watch):
    """Compares each worker's account of bytes in flight with the messages that there are."""

    def __init__(self, cores: Sequence[WorkerCore], network: Network) -> None:
        self._cores = cores
        self._network = network
        self._steps = 0

    def stepped(self, worker: int, sent: Sent) -> None:
        """Check all accounts, now and then."""
        self._steps += 1
        if self._steps % _EVERY == 0:
            self.check()

    def check(self) -> None:
        """Check all accounts, between two events."""
        for core in self._cores:
            expected = sum(self._due_to(core, other) for other in self._cores)
            if core.flow.load != expected:
                raise ViolationError(
                    "flow", f"worker {core.worker} answers for {core.flow.load} bytes, and there are {expected}"
                )

    def check_end(self) -> None:
        """Check, when all is over, that nobody is held back, and that next to nothing is left to acknowledge."""
        self.check()
        held = [core.worker for core in self._cores if core.flow.is_held]
        if held:
            raise ViolationError("flow", f"all is over, and sources of workers {held} are held back")

    def _due_to(self, sender: WorkerCore, receiver: WorkerCore) -> int:
        """Return the bytes that one worker has sent another, and that it does not know to be taken."""
        early = (envelope.messages for envelope in receiver._substreams._early)
        waiting: int = sum(
            message.size
            for message in chain(unreceived(receiver), *early)
            if message.size and message.sender == sender.worker
        )
        if sender is receiver:
            return waiting
        on_their_way = sum(
            message.size
            for envelope in self._network.on(sender.worker, receiver.worker)
            for message in envelope.messages
        )
        unheard_of = receiver.flow._taken[sender.worker] - sender.flow._acknowledged[receiver.worker]
        return waiting + on_their_way + unheard_of
