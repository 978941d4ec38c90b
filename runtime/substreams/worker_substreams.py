"""The substreams of one worker: its books and gates, and the operators to which it passes on what is told."""

from collections.abc import Sequence
from functools import partial

from tidewheel.progress import Change, CompiledGraph, Target
from tidewheel.runtime.substreams.books import TELLER, SubstreamBooks
from tidewheel.runtime.substreams.declared import DeclaredSubstreams
from tidewheel.runtime.substreams.gate import OpenSubstreams, SubstreamGate
from tidewheel.runtime.substreams.labels import Label
from tidewheel.runtime.substreams.news import SubstreamNews
from tidewheel.runtime.substreams.substream_ports import SubstreamInput
from tidewheel.runtime.worker.envelope import Envelope
from tidewheel.runtime.worker.operator_host import OperatorHost
from tidewheel.runtime.worker.operator_instance import OperatorInstance


class WorkerSubstreams:
    """What a worker core does for substreams.

    Args:
        host: the worker.
        compiled: the graph.
        declared: what is declared in it, by number.
        instances: this worker's operators; those that declare substreams get their gates.

    Attributes:
        books: what is counted.
        gates: by the number of the declaration.
    """

    def __init__(
        self,
        host: OperatorHost,
        compiled: CompiledGraph,
        declared: Sequence[DeclaredSubstreams],
        instances: list[OperatorInstance],
    ) -> None:
        self._host = host
        self._compiled = compiled
        self._declared = declared
        self.books = SubstreamBooks(compiled, declared, host.worker, host.workers, self._pass_on)
        self.gates: list[SubstreamGate] = []
        for number, one in enumerate(declared):
            instance = instances[one.source.operator]
            domain = instance.outputs[one.source.port].domain
            activate = partial(host.activate, one.source.operator)
            instance.gate = SubstreamGate(number, one.name, one.is_shared, domain, self.books, activate)
            self.gates.append(instance.gate)
        ports = (port for one in instances for port in one.inputs)
        self._ports = {port.location: port for port in ports if isinstance(port, SubstreamInput)}
        self._early: list[Envelope] = []

    def holds_back(self, envelope: Envelope) -> bool:
        """Tell whether an envelope has to wait for what worker 0 tells; it is kept here then.

        So do all that its sender has sent after it, as that has heard no less by then.
        """
        if envelope.sender == TELLER or envelope.heard <= self.books.heard:  # worker 0 brings in order what it tells
            return False
        self._early.append(envelope)
        return True

    def record_tokens(self, groups: list[tuple[Label, tuple[Change, ...]]]) -> None:
        """Count what happened to tokens of substreams, and forget it there."""
        for label, changes in groups:
            for (location, time), difference in changes:
                self.books.record(label, location, time, difference)
        groups.clear()

    def hear(self, news: SubstreamNews) -> list[Envelope]:
        """Receive what another worker tells; return the envelopes that were held back, to be received again."""
        self.books.receive(news)
        early, self._early = self._early, []
        return early

    def open_substreams(self) -> tuple[OpenSubstreams, ...]:
        """Say which substreams have not ended here, of those declarations of which there are some."""
        found = (gate.open_substreams() for gate in self.gates)
        return tuple(one for one in found if one.count or one.waiting)

    def _pass_on(self, news: SubstreamNews) -> None:
        """Tell operators what worker 0 has told everyone."""
        for declaration, keys in news.turns.items():
            for port in map(self._activated, self._locations(self._declared[declaration].turns)):
                assert port.firm is not None, "others do not take turns"
                port.firm.close(keys)
        for location, keys in news.ends.items():
            port = self._activated(location)
            if port.firm is not None:
                port.firm.end(keys)
            else:
                assert port.ends is not None, "the plan says which operators learn of ends"
                port.ends.add(keys)
        for declaration, keys in news.over.items():
            self.gates[declaration].over(keys)
        for declaration in news.all_over:
            for location in self._locations(self._declared[declaration].asked):
                ends = self._ports[location].ends
                if ends is not None:  # a firm bound has none apart
                    ends.are_all = True
                    self._activated(location)

    def _locations(self, ports: Sequence[Target]) -> list[int]:
        return [self._compiled.index[port] for port in ports]

    def _activated(self, location: int) -> SubstreamInput:
        """Return the input at a location, and schedule its operator."""
        self._host.activate(self._compiled.locations[location].operator)
        return self._ports[location]
