"""A running operator on one worker. A stateless operator consists of stages; an input has a mailbox.

Progress tracking ignores stateless operators, which have no frontier and no token.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from reprlib import repr as short
from typing import Any

from tidewheel.batches.batches import Batch, check_batch, length
from tidewheel.host.sigterm import Terminated
from tidewheel.progress import Time
from tidewheel.runtime.description.plan import Schedule, Stage
from tidewheel.runtime.messages.connector_numbers import ConnectorNumbers
from tidewheel.runtime.messages.labels import MixedLabel, labels_of, parts_by_key
from tidewheel.runtime.messages.statistics import OperatorStatistics
from tidewheel.runtime.state.operator_state import OperatorState
from tidewheel.runtime.substreams.gate import SubstreamGate
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.worker.failure import PartError
from tidewheel.runtime.worker.mailbox import Mailbox
from tidewheel.runtime.worker.ports import InputPort, OutputPort, PortOwner, RunningOutput


class RunningStage:
    """One stage on one worker, with its counts."""

    __slots__ = ("_clock", "messages_in", "messages_out", "records_in", "records_out", "seconds", "stage")

    def __init__(self, stage: Stage, clock: Callable[[], float]) -> None:
        self.stage = stage
        self._clock = clock
        self.messages_in = self.messages_out = self.records_in = self.records_out = 0
        self.seconds = 0.0

    def run(self, batch: Batch, count: int, keys: list[Any] | None) -> tuple[Batch, int, list[Any] | None]:
        """Return the stage's result for a batch of ``count`` records, the number of results, and any keys of them.

        Raises:
            PartError: the stage's function has raised.
        """
        self.messages_in += 1
        self.records_in += count
        started = self._clock()
        try:
            if keys is None:
                result = self.stage.transform(batch)
            else:
                assert self.stage.with_keys is not None, "others get the records of one key at a time"
                result, keys = self.stage.with_keys(batch, keys)
            if type(result) is not list:
                check_batch(result)
        except Terminated:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:
            raise PartError(self.stage.name, None, "failed") from error
        self.seconds += self._clock() - started
        count = length(result)
        if count:
            self.messages_out += 1
            self.records_out += count
        return result, count, keys


class OperatorInstance(PortOwner):
    """The ports and the schedule function of an operator, and its present call.

    Attributes:
        initial: the initial token of each output; None once the operator has taken it.
        waits_for: for `Job.explain`, in words, the event until which the operator keeps tokens of passed times; empty
            if it waits for none.
        connector: returns the numbers of a source or a sink for a report, between two steps; None for other operators.
    """

    def __init__(self, number: int, name: str, notify: bool, clock: Callable[[], float]) -> None:
        super().__init__(name, notify)
        self.number = number
        self.in_loop = False
        self.clock = clock
        self.seconds = 0.0
        self.started = 0.0
        self.schedule: Schedule
        self.attachments: Mapping[str, Any] = {}
        self.initial: list[TimestampToken | None] = []
        self.mailbox: Mailbox | None = None
        self.gate: SubstreamGate | None = None
        self.stages: list[RunningStage] = []
        self.kept: OperatorState
        self.waits_for = ""
        self.connector: Callable[[], ConnectorNumbers] | None = None
        self._ports: list[InputPort | OutputPort] = []

    def run(self) -> bool:
        """Run the operator once; return whether it has received some messages and left others unread."""
        waiting = [(port, port.consumed + port.looked_at) for port in self.inputs if port.queue]
        self.time = None
        self.started = self.clock()
        try:
            returned = self._call()
        finally:
            self.call = -1
            self.seconds += self.clock() - self.started
        if returned is not None:
            raise TypeError(
                f"schedule returned {short(returned)}: it sends with output.send(token, batch) and returns nothing; "
                "a function with yield in it does not even run"
            )
        left = any(port.queue for port, _ in waiting)
        return left and any(port.consumed + port.looked_at > before for port, before in waiting)

    def _call(self) -> object:
        self.schedules += 1
        self.call = self.schedules
        returned: object = self.schedule(*self._ports)
        return returned

    def begin(self) -> None:
        self._ports = [*map(InputPort, self.inputs), *map(OutputPort, self.outputs)]
        self.initial = [port.initial_token() for port in self.outputs]

    def use_stages(self, stages: Sequence[Stage]) -> None:
        running = self.stages = [RunningStage(stage, self.clock) for stage in stages]
        (source,), (sender,) = self.inputs, self.outputs

        def schedule(input: InputPort, output: OutputPort) -> None:
            for token, batch in source.whole():
                _send(running, token, batch, sender)

        self.schedule = schedule

    def discard_initial_tokens(self) -> None:
        for output, token in enumerate(self.initial):
            if token is not None:
                token.discard()
                self.initial[output] = None

    def work_at(self, time: Time) -> None:
        self.time = time

    @property
    def has_more_work(self) -> bool:
        """Whether an operator that expects a thread still has work, although the dataflow holds no more tokens.

        An operator without outputs, such as publish, has work. With outputs, its only work can be to report a lent
        token that it has kept by mistake. Linear in the objects of the process.
        """
        return not self.outputs or any(
            type(kept) is LentToken and kept._input.owner is self for kept in gc.get_objects()
        )

    def statistics(self) -> Iterator[tuple[str, OperatorStatistics]]:
        """Yield the operator's name and statistics, or those of each stage."""
        dropped = sum(port.records for port in self.outputs if port.drops)
        for running in self.stages:
            received, sent = (running.messages_in, running.records_in), (running.messages_out, running.records_out)
            lost = dropped if running is self.stages[-1] else 0
            yield running.stage.name, OperatorStatistics(self.schedules, running.seconds, *received, *sent, lost)
        if not self.stages:
            received = sum(port.consumed for port in self.inputs), sum(port.records for port in self.inputs)
            outputs = [port for port in self.outputs if not port.is_aside]
            sent = sum(port.sent for port in outputs), sum(port.records for port in outputs)
            yield self.name, OperatorStatistics(self.schedules, self.seconds, *received, *sent, dropped)


def _send(stages: Sequence[RunningStage], token: LentToken, batch: Batch, output: RunningOutput) -> None:
    """Send the results of the stages, divided by substream from the first stage that needs that."""
    label = token.label
    mixed = label if isinstance(label, MixedLabel) else None
    keys = None if mixed is None else mixed.keys
    count = length(batch)
    for number, running in enumerate(stages):
        if mixed is not None and keys is not None and running.stage.with_keys is None:
            for key, part in parts_by_key(batch, keys):
                _send(stages[number:], token._of((mixed.declaration, key)), part, output)
            return
        batch, count, keys = running.run(batch, count, keys)
        if not count:
            return
    if mixed is None or keys is None:
        output.send(token, batch)
    else:
        output.send_labelled(token, batch, mixed if keys is mixed.keys else labels_of(mixed.declaration, keys))
