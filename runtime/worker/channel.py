"""The channel of one edge: it carries batches from an output to an input, on this worker or another."""

from tidewheel.progress import Time
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.explaining.statistics import EdgeStatistics
from tidewheel.runtime.worker.flow_control import OVERHEAD_BYTES
from tidewheel.runtime.worker.message import Message
from tidewheel.runtime.worker.port_host import PortHost, Receiving
from tidewheel.transport.batches import Batch, length, size_in_bytes


class ExchangeError(Exception):
    """The pact could not find the key of a record; the cause says why.

    ``args`` has the name of the operator that the edge leads to, and the time of the batch.
    """


class Channel:
    """One edge as one worker sees it: its end on this worker, and the pact by which records are spread.

    Attributes:
        operator: the number of the operator to which it leads.
        messages, records, bytes: what this worker has sent over it, to itself and to others.
    """

    __slots__ = ("_location", "_name", "_pact", "_target", "bytes", "messages", "operator", "records")

    def __init__(self, target: Receiving, worker: int, operator: int, name: str, pact: Pact | None) -> None:
        self._target = target
        self._location = target.location
        self._name = name
        self.operator = operator
        self._pact = None if pact is None else pact.for_worker(worker)
        self.messages = 0
        self.records = 0
        self.bytes = 0

    def push(self, core: PortHost, time: Time, batch: Batch, count: int) -> None:
        """Carry a batch of ``count`` records over the edge."""
        if self._pact is None:
            size = self._count(batch, count)
            self._deliver_here(core, Message(self._location, time, batch, size, core.worker))
            return
        try:
            parts = self._pact.split(batch, core.workers)
        except Exception as error:
            raise ExchangeError(self._name, time) from error
        for worker, part in enumerate(parts):
            if part is None:
                continue
            message = Message(self._location, time, part, self._count(part, length(part)), core.worker)
            if worker == core.worker:
                self._deliver_here(core, message)
            else:
                self._deliver_to(core, worker, message)

    def _deliver_here(self, core: PortHost, message: Message) -> None:
        core.produce(self._location, message.time)
        core.flow.add(message.size)
        self._target.put(message)
        core.activate(self.operator)

    def _deliver_to(self, core: PortHost, worker: int, message: Message) -> None:
        core.produce(self._location, message.time)
        core.flow.add(message.size)
        core.outbox.put(worker, message)

    def statistics(self, source: str, target: str) -> EdgeStatistics:
        """Return what was sent, over an edge between ports of these names."""
        return EdgeStatistics(source, target, self.messages, self.records, self.bytes)

    def _count(self, batch: Batch, count: int) -> int:
        """Count a message; return what it counts for among the bytes in flight."""
        size = size_in_bytes(batch)
        self.messages += 1
        self.records += count
        self.bytes += size
        return size + OVERHEAD_BYTES
