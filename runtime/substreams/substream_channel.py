"""The channel of one edge in a dataflow that declares substreams."""

from tidewheel.progress import Time
from tidewheel.runtime.substreams.labelled_message import LabelledMessage
from tidewheel.runtime.substreams.labels import Labels
from tidewheel.runtime.worker.channel import Channel, ExchangeError
from tidewheel.runtime.worker.port_host import PortHost
from tidewheel.transport.batches import Batch, length


class SubstreamChannel(Channel):
    """A channel that carries the labels of records, too, and counts them in the worker's books."""

    __slots__ = ()

    def push_labelled(self, core: PortHost, time: Time, batch: Batch, count: int, label: Labels) -> None:
        """Carry a batch of ``count`` records of the substreams that ``label`` says over the edge."""
        if self._pact is None:
            self._deliver_labelled(core, time, batch, self._count(batch, count), label)
            return
        try:
            parts = list(self._pact.labelled_parts(batch, core.workers, label))
        except Exception as error:
            raise ExchangeError(self._name, time) from error
        for worker, part, of_part in parts:
            assert of_part is not None, "a part of labelled records is labelled"
            size = self._count(part, length(part))
            if worker == core.worker:
                self._deliver_labelled(core, time, part, size, of_part)
            else:
                core.books.record(of_part, self._location, time, 1)
                self._deliver_to(core, worker, LabelledMessage(self._location, time, part, size, core.worker, of_part))

    def _deliver_labelled(self, core: PortHost, time: Time, batch: Batch, size: int, label: Labels) -> None:
        core.books.produce_here(label, self._location, time)
        self._deliver_here(core, LabelledMessage(self._location, time, batch, size, core.worker, label))
