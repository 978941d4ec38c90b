"""The substreams of one worker: its books and gates, and the operators to which it passes on what is told."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tidewheel.progress import CompiledGraph, GraphError, Source, Target
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.substreams.books import TELLER, SubstreamBooks
from tidewheel.runtime.substreams.declared import declared_substreams
from tidewheel.runtime.substreams.declared_substreams import DeclaredSubstreams
from tidewheel.runtime.substreams.end_of_substream import EndOfSubstream
from tidewheel.runtime.substreams.firm_mailbox import FirmMailbox
from tidewheel.runtime.substreams.gate import SubstreamGate
from tidewheel.runtime.substreams.labels import Label
from tidewheel.runtime.substreams.news import SubstreamNews
from tidewheel.runtime.substreams.open_substreams import OpenSubstreams
from tidewheel.runtime.substreams.substream_input import SubstreamInput
from tidewheel.runtime.substreams.substream_instance import SubstreamInstance
from tidewheel.runtime.substreams.substream_output import SubstreamOutput
from tidewheel.runtime.tokens.token_ledger import Change
from tidewheel.runtime.worker.envelope import Envelope
from tidewheel.runtime.worker.port_host import PortHost

if TYPE_CHECKING:
    from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
    from tidewheel.runtime.worker.operator_instance import OperatorInstance


class WorkerSubstreams:
    """What a worker core does for substreams.

    Args:
        core: the worker.
        plan: the dataflow, and ``compiled``, its graph.
        instances: this worker's operators.

    Attributes:
        books: what is counted.
        gates: by the number of the operator that declares substreams.
    """

    def __init__(
        self,
        core: PortHost,
        plan: Plan,
        compiled: CompiledGraph,
        instances: "list[OperatorInstance]",
    ) -> None:
        declared = declared_substreams(plan, compiled)
        self.books = SubstreamBooks(compiled, declared, core.worker, core.workers)
        self._operator_at = [location.operator for location in compiled.locations]
        self.gates: dict[int, SubstreamGate] = {}
        self._by_number: list[SubstreamGate] = []
        self._asked = [tuple(compiled.index[at] for at in one.asked) for one in declared]
        for number, one in enumerate(declared):
            operator = one.source.operator
            domain = instances[operator].outputs[one.source.port].domain
            _receive_firmly(core, plan, compiled, one, instances)
            gate = SubstreamGate(number, one.name, one.is_shared, domain, self.books, partial(core.activate, operator))
            self.gates[operator] = gate
            self._by_number.append(gate)
        self._marked = {
            number
            for number, operator in enumerate(plan.operators)
            if any(pact is not None and pact.takes_marks for pact in operator.pacts)
        }
        self._ports = {
            port.location: port for one in instances for port in one.inputs if isinstance(port, SubstreamInput)
        }
        self._turns = [[compiled.index[at] for at in one.turns] for one in declared]
        self._activate = core.activate
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
        """Take note of what happened to tokens of substreams, and forget it there."""
        for label, changes in groups:
            for (location, time), difference in changes:
                self.books.record(label, location, time, difference)
        groups.clear()

    def hear(self, news: SubstreamNews) -> list[Envelope]:
        """Take in what another worker tells; return the envelopes that were held back, to be taken in again."""
        self.books.receive(news)
        self._pass_on()
        early, self._early = self._early, []
        return early

    def commit(self, *, out_of_work: bool) -> dict[int, SubstreamNews]:
        """End a step: return what is to be told to whom. The tokens have to be counted."""
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
        outputs = [output for output in instance.outputs if isinstance(output, SubstreamOutput)]
        are_sent = [output.send_marks(token, marks, self._marked) for output in outputs]
        if not any(are_sent):
            raise GraphError(
                f"operator {instance.name!r} ends a substream, but nothing right behind it divides what it sends: "
                "call substreams(name, key=...) on its stream itself"
            )

    @property
    def is_over(self) -> bool:
        """Whether no substream is left, and none can come, as far as this worker has heard."""
        return self.books.is_over

    def _pass_on(self) -> None:
        for news in self.books.drain_heard():
            self._take_turns(news)
            for location, keys in news.ends.items():
                self._end(self._ports[location], keys)
                self._activate(self._operator_at[location])
            for declaration, keys in news.over.items():
                self._by_number[declaration].over(keys)
            for declaration in news.all_over:
                for location in self._asked[declaration]:
                    ends = self._ports[location].ends
                    if ends is not None:  # a firm bound has none apart
                        ends.are_all = True
                        self._activate(self._operator_at[location])
        for declaration, keys in self.books.drain_untracked().items():
            self._by_number[declaration].over(keys)

    def _take_turns(self, news: SubstreamNews) -> None:
        for declaration, keys in news.turns.items():
            for location in self._turns[declaration]:
                firm = self._ports[location].firm
                assert firm is not None, "others do not take turns"
                firm.close(keys)
                self._activate(self._operator_at[location])

    @staticmethod
    def _end(port: SubstreamInput, keys: Sequence[Key]) -> None:
        if port.firm is not None:
            port.firm.end(keys)
            return
        assert port.ends is not None, "the plan says which operators are told of ends"
        port.ends.add(keys)


def _receive_firmly(
    core: PortHost,
    plan: Plan,
    compiled: CompiledGraph,
    declared: DeclaredSubstreams,
    instances: "list[OperatorInstance]",
) -> None:
    """Give inputs with a firm bound the mailbox for that."""
    for at in declared.firm:
        assert isinstance(at, Target), "who asks has an input"
        instance = instances[at.operator]
        port = instance.inputs[at.port]
        assert isinstance(port, SubstreamInput), "the dataflow declares substreams"
        assert isinstance(instance, SubstreamInstance), "the dataflow declares substreams"
        shape = plan.operators[at.operator].shape
        outputs = [Source(at.operator, number) for number in range(len(shape.outputs))]
        led_to = tuple(compiled.index[one] for one in outputs if shape.summaries.get((at.port, one.port)))
        port.ends, port.firm = None, FirmMailbox(core, port, led_to, takes_turns=at in declared.turns)
        port.put = port.firm.put
        instance.firm += (port,)
