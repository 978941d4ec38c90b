"""The channel of one edge: it carries batches from an output to an input, on this worker or another."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tidewheel.progress import Time
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.explaining.statistics import EdgeStatistics
from tidewheel.runtime.worker.envelope import Message
from tidewheel.runtime.worker.failure import PartError
from tidewheel.runtime.worker.flow_control import OVERHEAD_BYTES
from tidewheel.runtime.worker.operator_host import OperatorHost
from tidewheel.transport.batches import Batch, length, size_in_bytes
from tidewheel.transport.held_bytes import RecordSizes


@dataclass(slots=True, eq=False)
class Channel:
    """One edge as one worker sees it: its end on this worker, and the pact by which records are spread.

    Args:
        host: the worker.
        location: the number of the input port to which it leads.
        put: receives a message at that port.
        operator: the number of the operator of that port, and ``name``, its name.
        pact: spreads records over the workers; None keeps them on this one.

    Attributes:
        takes_marks: whether marks of the ends of substreams go over the edge, among the records.
        messages, records, bytes: what this worker has sent over it, to itself and to others.
    """

    host: OperatorHost
    location: int
    put: Callable[[Message], None]
    operator: int
    name: str
    pact: Pact | None
    takes_marks: bool = False
    messages: int = 0
    records: int = 0
    bytes: int = 0
    _sizes: RecordSizes = field(default_factory=RecordSizes)

    def __post_init__(self) -> None:
        if self.pact is not None:
            self.takes_marks = self.pact.takes_marks
            self.pact = self.pact.for_worker(self.host.worker)

    def push(self, time: Time, batch: Batch, count: int) -> None:
        """Carry a batch of ``count`` records over the edge."""
        here = self.host.worker
        if self.pact is None:
            self._deliver(here, Message(self.location, time, batch, self._count(batch, count), here))
            return
        try:
            parts = self.pact.split(batch, self.host.workers)
        except Exception as error:
            raise self._could_not_exchange(time) from error
        for worker, part in enumerate(parts):
            if part is not None:
                self._deliver(worker, Message(self.location, time, part, self._count(part, length(part)), here))

    def _could_not_exchange(self, time: Time) -> PartError:
        return PartError(self.name, time, "could not exchange a record")

    def _deliver(self, worker: int, message: Message) -> None:
        host = self.host
        host.produce(self.location, message.time)
        host.flow.add(message.size)
        if worker == host.worker:
            self.put(message)
            host.activate(self.operator)
        else:
            host.outbox.put(worker, message)

    def statistics(self, source: str, target: str) -> EdgeStatistics:
        """Return what was sent, over an edge between ports of these names."""
        return EdgeStatistics(source, target, self.messages, self.records, self.bytes)

    def _count(self, batch: Batch, count: int) -> int:
        """Count a message; return what it counts for among the bytes in flight."""
        received = self.host.received
        if received is not None and received.batch is batch and received.size:
            size = received.size
        else:
            size = size_in_bytes(batch, self._sizes) + OVERHEAD_BYTES
        self.messages += 1
        self.records += count
        self.bytes += size - OVERHEAD_BYTES
        return size
