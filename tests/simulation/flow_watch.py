"""The check that bytes in flight count once each, at the worker that has to answer for them."""

from collections.abc import Sequence

from tests.kit.simulation.violation import ViolationError
from tests.simulation.links import Links
from tidewheel.runtime.worker.worker_core import WorkerCore


class FlowWatch:
    """Compares each worker's account of bytes in flight with the messages that there are."""

    def __init__(self, cores: Sequence[WorkerCore], links: Links) -> None:
        self._cores = cores
        self._links = links

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
        waiting: int = sum(
            message.size
            for port in receiver._ports.values()
            for message in port.queue
            if message.size and message.sender == sender.worker
        )
        if sender is receiver:
            return waiting
        on_their_way = sum(
            message.size for envelope in self._links.on(sender.worker, receiver.worker) for message in envelope.messages
        )
        unheard_of = receiver.flow._taken[sender.worker] - sender.flow._acknowledged[receiver.worker]
        return waiting + on_their_way + unheard_of
