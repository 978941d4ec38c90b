"""Edges: how a batch gets from an output to an input, on this worker or another."""

from typing import TYPE_CHECKING

from tidewheel.progress import Time
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.explaining.statistics import EdgeStatistics
from tidewheel.runtime.substreams.labels import Labels
from tidewheel.runtime.substreams.markers import Markers, marking
from tidewheel.runtime.worker.envelope import Message
from tidewheel.runtime.worker.flow_control import OVERHEAD_BYTES
from tidewheel.transport.batches import Batch, length, size_in_bytes

if TYPE_CHECKING:
    from tidewheel.runtime.worker.input_port import InputPort
    from tidewheel.runtime.worker.worker_core import WorkerCore


class ExchangeError(Exception):
    """The key of a record could not be found: what went wrong is its cause.

    ``args`` has the name of the operator that asks for it, and the time of the batch.
    """


class Channel:
    """One edge as one worker sees it: its end on this worker, and the pact by which records are spread.

    Attributes:
        operator: the number of the operator to which it leads.
        messages, records, bytes: what this worker has sent over it, to itself and to others.
    """

    __slots__ = ("_location", "_name", "_pact", "_target", "bytes", "messages", "operator", "records")

    def __init__(self, target: "InputPort", operator: int, name: str, pact: Pact | None) -> None:
        self._target = target
        self._location = target.location
        self._name = name
        self.operator = operator
        self._pact = None if pact is None else pact.for_worker(target.worker)
        self.messages = 0
        self.records = 0
        self.bytes = 0

    def push(self, core: "WorkerCore", time: Time, batch: Batch, count: int, label: Labels | None) -> None:
        """Carry a batch of ``count`` records, of the substreams that ``label`` says, over the edge."""
        if self._pact is None:
            size = self._count(batch, count)
            core.produce(self._location, time)
            if label is not None:
                core.books.produce_here(label, self._location, time)
            core.flow.add(size)
            self._target.put((time, batch, size, core.worker, label))
            core.activate(self.operator)
            return
        try:
            parts = list(self._pact.labelled_parts(batch, core.workers, label))
        except Exception as error:
            raise ExchangeError(self._name, time) from error
        for worker, part, part_label in parts:
            size = self._count(part, length(part))
            core.flow.add(size)
            if worker == core.worker:
                core.produce(self._location, time)
                if part_label is not None:
                    core.books.produce_here(part_label, self._location, time)
                self._target.put((time, part, size, worker, part_label))
                core.activate(self.operator)
            else:
                core.produce(self._location, time, part_label)
                core.outbox.put(worker, Message(self._location, time, part, size, part_label))

    @property
    def stays_here(self) -> bool:
        """Whether all goes to this worker."""
        return self._pact is None

    def push_markers(self, core: "WorkerCore", markers: Markers) -> None:
        """Carry markers over the edge, to all workers to which records go over it."""
        for worker in range(core.workers):
            if worker == core.worker:
                self._target.put(marking(markers, worker))
                core.activate(self.operator)
            elif self._pact is not None:
                core.outbox.put(worker, Message(self._location, None, [], 0, markers))

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
