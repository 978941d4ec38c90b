"""The substreams of one worker: its books and gates, and the operators that receive worker 0's news."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tidewheel.progress import Change, CompiledGraph, Target
from tidewheel.progress.substream_tracker import ToldEnds
from tidewheel.runtime.description.declared import DeclaredSubstreams
from tidewheel.runtime.errors import SnapshotError
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.messages.labels import Label
from tidewheel.runtime.messages.news import SubstreamNews
from tidewheel.runtime.messages.worker_report import OpenSubstreams
from tidewheel.runtime.substreams.books import TELLER, SubstreamBooks
from tidewheel.runtime.substreams.gate import SubstreamGate
from tidewheel.runtime.substreams.substream_part import Place, SubstreamPart, ViewPart
from tidewheel.runtime.worker.operator_host import OperatorHost
from tidewheel.runtime.worker.operator_instance import OperatorInstance
from tidewheel.runtime.worker.substream_ports import SubstreamInput


class WorkerSubstreams:
    """The part of a worker core that handles substreams.

    Args:
        instances: this worker's operators. Those that declare substreams get their gates here.

    Raises:
        SnapshotError: the snapshot numbers declarations differently.
    """

    def __init__(
        self,
        host: OperatorHost,
        compiled: CompiledGraph,
        declared: Sequence[DeclaredSubstreams],
        instances: list[OperatorInstance],
        saved: Mapping[str, SubstreamPart] | None = None,
    ) -> None:
        self._host = host
        self._compiled = compiled
        self._declared = declared
        self._instances = instances
        goes_on = saved is not None
        self.books = SubstreamBooks(compiled, declared, host.worker, host.workers, self._pass_on, goes_on=goes_on)
        host.books = self.books
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
        for instance in instances:
            if saved is not None and instance.name in saved:
                self._go_on(instance, saved[instance.name])

    def holds_back(self, envelope: Envelope) -> bool:
        """Keep an envelope here if it must wait for worker 0's news; return whether it must.

        Later envelopes of the same sender wait too, since they need at least the same news.
        """
        if envelope.sender == TELLER or envelope.heard <= self.books.heard:  # worker 0 sends all announcements in order
            return False
        self._early.append(envelope)
        return True

    def record_tokens(self, groups: list[tuple[Label, tuple[Change, ...]]]) -> None:
        for label, changes in groups:
            for (location, time), difference in changes:
                self.books.record(label, location, time, difference)
        groups.clear()

    def hear(self, news: SubstreamNews) -> list[Envelope]:
        self.books.receive(news)
        early, self._early = self._early, []
        return early

    def open_substreams(self) -> tuple[OpenSubstreams, ...]:
        found = (gate.open_substreams() for gate in self.gates)
        return tuple(one for one in found if one.count or one.waiting)

    # ------------------------------------------------------------------ snapshots

    def part_of(self, instance: OperatorInstance) -> SubstreamPart | None:
        if not self._declared:
            return None
        gate, view, part = instance.gate, self.books.view, SubstreamPart()
        if gate is not None:
            part.gate = gate.part()
            if view is not None and self._declared[gate.number].asked:
                part.view = self._view_part(view.told(gate.number))
        for port in instance.inputs:
            assert isinstance(port, SubstreamInput), "all inputs of this dataflow are"
            if port.firm is not None:
                part.firm[port.port] = port.firm.part()
            elif port.ends is not None:
                part.ends[port.port] = list(port.ends)
        return None if part.is_empty else part

    def add_late(self, news: SubstreamNews, part_of: Callable[[int], SubstreamPart]) -> None:
        """Add news that was in flight at the cut; ``part_of`` returns the part of an operator, given its number.

        News for worker 0 is not needed, since workers send it again.
        """
        for declaration, keys in news.turns.items():
            for at in self._declared[declaration].turns:
                part_of(at.operator).firm[at.port].closed += keys
        for location, keys in news.ends.items():
            operator, port = self._at(location)
            part = part_of(operator)
            ended = part.firm[port].ends if port in part.firm else part.ends[port]
            ended += keys
        for declaration, keys in news.over.items():
            gate = part_of(self._declared[declaration].source.operator).gate
            assert gate is not None, "it declares substreams"
            gate.over += keys

    def _view_part(self, told: ToldEnds) -> ViewPart:
        return ViewPart(
            {key: list(map(self._place, locations)) for key, locations in told.ended.items()},
            {self._place(at): list(keys) for at, keys in told.queues.items()},
        )

    def _place(self, location: int) -> Place:
        operator, port = self._at(location)
        return self._instances[operator].name, port

    def _at(self, location: int) -> tuple[int, int]:
        at = self._compiled.locations[location]
        return at.operator, at.port

    def _go_on(self, instance: OperatorInstance, part: SubstreamPart) -> None:
        for port in instance.inputs:
            assert isinstance(port, SubstreamInput), "all inputs of this dataflow are"
            if port.firm is not None and port.port in part.firm:
                port.firm.begin_with(part.firm[port.port])
            elif port.ends is not None:
                port.ends.add(part.ends.get(port.port, []))
        gate = instance.gate
        if gate is None or part.gate is None:
            return
        if (gate.number, gate.name) != (part.gate.number, part.gate.name):
            raise SnapshotError(
                f"operator {instance.name!r} declares substreams {gate.name!r}, as the declaration {gate.number} of "
                f"this dataflow; in the snapshot it is {part.gate.name!r}, {part.gate.number}. Keep the names of "
                "substreams, and add others behind them"
            )
        gate.begin_with(part.gate)
        if self.books.view is not None and part.view is not None and self._declared[gate.number].asked:
            self.books.view.go_on(gate.number, self._told(gate.number, part.view))

    def _told(self, declaration: int, view: ViewPart) -> ToldEnds:
        locations = {self._place(number): number for number in self._locations(self._declared[declaration].asked)}
        return ToldEnds(
            {key: [locations[at] for at in places if at in locations] for key, places in view.closed.items()},
            {locations[at]: keys for at, keys in view.queues.items() if at in locations},
        )

    # ------------------------------------------------------------------ news

    def _pass_on(self, news: SubstreamNews) -> None:
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
                if ends is not None:  # a firm bound has no ends apart from records
                    ends.are_all = True
                    self._activated(location)

    def _locations(self, ports: Sequence[Target]) -> list[int]:
        return [self._compiled.index[port] for port in ports]

    def _activated(self, location: int) -> SubstreamInput:
        self._host.activate(self._compiled.locations[location].operator)
        return self._ports[location]
