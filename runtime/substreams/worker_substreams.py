"""The substreams of one worker: its books and gates, and the operators to which it passes on what is told."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tidewheel.progress import CompiledGraph, GraphError
from tidewheel.runtime.envelope import Envelope
from tidewheel.runtime.plan import Plan
from tidewheel.runtime.ports import InputPort
from tidewheel.runtime.substreams.books import TELLER, SubstreamBooks
from tidewheel.runtime.substreams.declared import declared_substreams
from tidewheel.runtime.substreams.end_of_substream import EndOfSubstream
from tidewheel.runtime.substreams.gate import SubstreamGate
from tidewheel.runtime.substreams.news import SubstreamNews
from tidewheel.runtime.substreams.open_substreams import OpenSubstreams

if TYPE_CHECKING:
    from tidewheel.runtime.operator_instance import OperatorInstance
    from tidewheel.runtime.tokens import LentToken, TimestampToken


class WorkerSubstreams:
    """What a worker core does for substreams.

    Args:
        plan: the dataflow, and ``compiled``, its graph.
        worker, workers: the number of this worker, and how many there are.
        instances: this worker's operators.
        activate: has an operator scheduled, given its number.

    Attributes:
        books: what is counted.
        gates: by the number of the operator that declares substreams.
    """

    def __init__(
        self,
        plan: Plan,
        compiled: CompiledGraph,
        worker: int,
        workers: int,
        instances: "list[OperatorInstance]",
        activate: Callable[[int], None],
    ) -> None:
        declared = declared_substreams(plan, compiled)
        self.books = SubstreamBooks(compiled, declared, worker, workers)
        self.gates: dict[int, SubstreamGate] = {}
        self._by_number: list[SubstreamGate] = []
        for number, one in enumerate(declared):
            operator = one.source.operator
            domain = instances[operator].outputs[one.source.port].domain
            gate = SubstreamGate(number, one.name, one.is_shared, domain, self.books, partial(activate, operator))
            self.gates[operator] = gate
            self._by_number.append(gate)
        self._marked = {
            number
            for number, operator in enumerate(plan.operators)
            if any(pact is not None and pact.takes_marks for pact in operator.pacts)
        }
        self._ports: Mapping[int, InputPort] = {port.location: port for one in instances for port in one.inputs}
        self._operators = {port.location: number for number, one in enumerate(instances) for port in one.inputs}
        self._activate = activate
        self._early: list[Envelope] = []

    def holds_back(self, envelope: Envelope) -> bool:
        """Tell whether an envelope has to wait for what worker 0 tells; it is kept here then.

        So do all that its sender has sent after it, as that has heard no less by then.
        """
        if envelope.sender == TELLER or envelope.heard <= self.books.heard:  # worker 0 brings in order what it tells
            return False
        self._early.append(envelope)
        return True

    def hear(self, news: SubstreamNews) -> list[Envelope]:
        """Take in what another worker tells; return the envelopes that were held back, to be taken in again."""
        self.books.receive(news)
        self._pass_on()
        early, self._early = self._early, []
        return early

    def commit(self, *, out_of_work: bool) -> dict[int, SubstreamNews]:
        """End a step: return what is to be told to whom."""
        news = self.books.commit(out_of_work=out_of_work)
        self._pass_on()
        return news

    def open_substreams(self) -> tuple[OpenSubstreams, ...]:
        """Say which substreams have not ended here, of those declarations of which there are some."""
        found = (gate.open_substreams() for gate in self.gates.values())
        return tuple(one for one in found if one.count or one.waiting)

    def mark_ends(
        self, instance: "OperatorInstance", token: "TimestampToken | LentToken", marks: list[EndOfSubstream]
    ) -> None:
        """Send marks from an operator to those right behind it that divide its streams."""
        are_sent = [output.send_marks(token, marks, self._marked) for output in instance.outputs]
        if not any(are_sent):
            raise GraphError(
                f"operator {instance.name!r} ends a substream, but nothing right behind it divides what it sends: "
                "call substreams(name, key=...) on its stream itself"
            )

    def _pass_on(self) -> None:
        for (_, key), location in self.books.drain_ends():
            ends = self._ports[location].ends
            assert ends is not None, "the plan says which operators are told of ends"
            ends.add(key)
            self._activate(self._operators[location])
        for declaration, key in self.books.drain_over():
            self._by_number[declaration].over(key)
