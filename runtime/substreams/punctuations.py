"""Substreams tracked by punctuations: markers go with the records over every channel.

An operator sends a marker on over all that leaves it once the marker has come over all that enters it, and it keeps no
token of the substream any more. On a cycle it never would, so there are none. Each marker costs a message, or a part of
one, for each pair of workers between which records are exchanged; what is told of tokens, one for each worker.

Where one worker owns a key, it tells the others to send the marker from where the substreams are declared, as every
channel has to bring one. What is open when nothing more is let in ends everywhere once all workers have said that.

Source: seed "Substream Management", section "Punctuations framework".
"""

from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING

from tidewheel.progress import CompiledGraph
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.substreams.declared_substreams import DeclaredSubstreams
from tidewheel.runtime.substreams.markers import Entry, Markers
from tidewheel.runtime.substreams.news import Ending
from tidewheel.runtime.substreams.punctuated_operator import PunctuatedOperator
from tidewheel.runtime.worker.envelope import Message
from tidewheel.runtime.worker.output_port import OutputPort

if TYPE_CHECKING:
    from tidewheel.runtime.worker.operator_instance import OperatorInstance
    from tidewheel.runtime.worker.wiring import Edges
    from tidewheel.runtime.worker.worker_core import WorkerCore


class Punctuations:
    """One worker's share of one declaration that is tracked by punctuations.

    Args:
        core: the worker.
        number: of the declaration.
        declared: the declaration.
        compiled: the graph.
        instances: this worker's operators.
        edges: what is between them.

    Attributes:
        location: the number of where records get their keys.
        operators: those that send markers on, by number.
    """

    def __init__(
        self,
        core: "WorkerCore",
        number: int,
        declared: DeclaredSubstreams,
        compiled: CompiledGraph,
        instances: "list[OperatorInstance]",
        edges: "Edges",
    ) -> None:
        self._core = core
        self._number = number
        self._is_shared = declared.is_shared
        self.location = compiled.index[declared.source]
        self._output: OutputPort = instances[declared.source.operator].outputs[declared.source.port]
        self._open: dict[Key, None] = {}
        """What some worker had open when it let in nothing more."""
        self._finished = 0
        self._still_open: list[Key] = []
        self._untold: list[Key] = []
        self._gone: list[Key] = []
        inside = declared.marked
        marked = [channel for source, at, channel in edges if source == declared.source and at in inside]
        self._output.marked = number, marked
        self.operators = {
            operator: PunctuatedOperator(
                core,
                number,
                [channel for source, at, channel in edges if source.operator == operator and at in inside],
                partial(core.activate, operator),
                is_ordered=bool(declared.ordered),
            )
            for operator in dict.fromkeys(at.operator for at in inside)
        }
        for operator, punctuated in self.operators.items():
            instances[operator].punctuated += (punctuated,)
        self._at_outputs = {
            compiled.index[source]: self.operators[source.operator]
            for source, at, _ in edges
            if at in inside and source.operator in self.operators
        }
        """The operators, by the location numbers of those outputs over which markers go on."""
        for _, at, channel in edges:
            if at in inside:
                senders = [core.worker] if channel.stays_here else range(core.workers)
                self.operators[at.operator].add_input(instances[at.operator].inputs[at.port], senders)

    # ------------------------------------------------------------------ where records are let in

    def close(self, declaration: int, keys: Collection[Key]) -> None:
        """Send the markers of substreams of which this worker lets in nothing more."""
        self._gone += keys
        if not self.operators:  # nobody asks
            return
        self._output.marks += keys
        if not self._is_shared and self._core.workers > 1:
            self._untold += keys

    def end(self, ending: Ending, open_keys: Iterable[Key]) -> None:
        """Take note of those still open, which end when all does: nothing waits for long, as no key has to be over."""
        self._still_open += open_keys

    def finish(self, declaration: int, open_keys: Iterable[Key]) -> None:
        """Take note that this worker lets in nothing more of any substream, those still open told."""
        if not self.operators:
            return
        keys = [*self._still_open, *open_keys]
        self._still_open = []
        self._tell_others()
        for worker in range(self._core.workers):
            if worker != self._core.worker:
                self._tell(worker, Markers(declaration, keys, is_last=True))
        self._finish(keys)

    def put(self, entry: Entry) -> None:
        """Take in what another worker says: that it has closed keys, or lets in nothing more."""
        markers = entry[4]
        assert isinstance(markers, Markers), "nothing else is sent here"
        if markers.is_last:
            self._finish(markers.keys)
        else:
            self._output.marks += markers.keys
            self._output.flush_marks()

    def _finish(self, keys: Iterable[Key]) -> None:
        self._finished += 1
        self._open.update(dict.fromkeys(keys))
        if self._finished == self._core.workers:
            self._output.marks += self._open
            self._output.flush_marks(is_last=True)
            self._open.clear()

    def _tell_others(self) -> None:
        if self._untold:
            for worker in range(self._core.workers):
                if worker != self._core.worker:
                    self._tell(worker, Markers(self._number, self._untold))
            self._untold = []

    def _tell(self, worker: int, markers: Markers) -> None:
        self._core.outbox.put(worker, Message(self.location, None, [], 0, markers))

    def count_token(self, location: int, key: Key, difference: int) -> None:
        """Take note of tokens of a substream that an operator has, or has no more, at an output."""
        operator = self._at_outputs.get(location)
        if operator is not None:
            operator.count_token(key, difference)

    # ------------------------------------------------------------------ at the end of a step

    def commit(self) -> None:
        """Send what a step has left to be sent; the tokens have to be counted."""
        for operator in self.operators.values():
            if operator.is_due:
                operator.settle()
        self._tell_others()

    def drain_over(self) -> list[Key]:
        """Return the substreams that were closed since the last call: their keys may be used again."""
        gone, self._gone = self._gone, []
        return gone

    @property
    def is_over(self) -> bool:
        """Whether the last markers have passed all operators of this worker."""
        return all(operator.is_over for operator in self.operators.values())
