"""One operator on one worker, while it runs; a stateless one is made of stages, and that of an input has a mailbox.

A stateless operator looks at no frontier and keeps no token, so progress tracking need not know of it. Stateless
operators that are joined by edges within a worker run as stages of one operator, one after the other on each batch.
Nothing is queued, counted or scheduled between them. See `fusion.py`.

A mailbox keeps the commands of feeders until the operator of the input runs.
"""

import gc
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from reprlib import repr as short
from typing import Any

from tidewheel.batches.batches import Batch, check_batch, length
from tidewheel.host.sigterm import Terminated
from tidewheel.progress import GraphError, Time
from tidewheel.runtime.description.plan import Schedule, Stage
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.messages.labels import MixedLabel, labels_of, parts_by_key
from tidewheel.runtime.messages.statistics import OperatorStatistics
from tidewheel.runtime.state.operator_state import OperatorState
from tidewheel.runtime.state.worker_part import SavedMailbox, note_position
from tidewheel.runtime.substreams.gate import SubstreamGate
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.worker.envelope import FIRST_HANDLE, InputAction, InputCommand
from tidewheel.runtime.worker.failure import PartError
from tidewheel.runtime.worker.flow_control import Intake
from tidewheel.runtime.worker.operator_host import OperatorHost
from tidewheel.runtime.worker.ports import InputPort, OutputPort, PortOwner, RunningOutput
from tidewheel.transport.socket_address import DRIVER


class RunningStage:
    """One stage on one worker, with counts of its work so far.

    Attributes:
        stage: its name, and what it does.
        messages_in, records_in: what it has received.
        messages_out, records_out: what it has sent.
        seconds: how long its function has run.
    """

    __slots__ = ("_clock", "messages_in", "messages_out", "records_in", "records_out", "seconds", "stage")

    def __init__(self, stage: Stage, clock: Callable[[], float]) -> None:
        self.stage = stage
        self._clock = clock
        self.messages_in = self.messages_out = self.records_in = self.records_out = 0
        self.seconds = 0.0

    def run(self, batch: Batch, count: int, keys: list[Any] | None) -> tuple[Batch, int, list[Any] | None]:
        """Return what the stage makes of a batch of ``count`` records, how many it has, and their keys, if any.

        Raises:
            PartError: its function has raised something.
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
    """An operator's ports and schedule function, and what is known of the call that is under way.

    Attributes:
        number: its number in the plan.
        in_loop: whether its outputs are inside of a scope.
        seconds: how long all calls together took that have ended.
        started: when the last call began, as ``clock`` has it.
        clock: returns seconds, from any start; for statistics.
        attachments: the worker's handles of the attachments of the dataflow.
        initial: the tokens with which it begins, one for each output; None for those that it has taken.
        mailbox: what feeders sent to it, oldest first; only inputs have a mailbox.
        gate: which keys it may let in; only operators that declare substreams have one.
        stages: what it is made of, if it is stateless.
        kept: what it keeps from one call to the next.
        waits_for: the event for which it keeps tokens though its inputs have passed their times, in words; empty if it
            keeps none so. The operators of the library say it, and `Job.explain` tells it.
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
        self._ports: list[InputPort | OutputPort] = []

    def run(self) -> bool:
        """Schedule the operator once; return whether it left messages behind after it took some."""
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
        """Call the schedule function; return what it returns, which should be nothing."""
        self.schedules += 1
        self.call = self.schedules
        returned: object = self.schedule(*self._ports)
        return returned

    def begin(self) -> None:
        """Prepare to be built: the ports are there."""
        self._ports = [*map(InputPort, self.inputs), *map(OutputPort, self.outputs)]
        self.initial = [port.initial_token() for port in self.outputs]

    def use_stages(self, stages: Sequence[Stage]) -> None:
        """Send each batch, changed by all stages in turn, at its time."""
        running = self.stages = [RunningStage(stage, self.clock) for stage in stages]
        (source,), (sender,) = self.inputs, self.outputs

        def schedule(input: InputPort, output: OutputPort) -> None:
            for token, batch in source.whole():
                _send(running, token, batch, sender)

        self.schedule = schedule

    def discard_initial_tokens(self) -> None:
        """Discard the initial tokens that build did not take."""
        for output, token in enumerate(self.initial):
            if token is not None:
                token.discard()
                self.initial[output] = None

    def work_at(self, time: Time) -> None:
        """Note that the operator is at work at a time; errors name it."""
        self.time = time

    @property
    def has_more_work(self) -> bool:
        """Whether it still has work if it expects a thread and the dataflow holds no token any more.

        An operator without outputs has, as publish. One with outputs holds a token for its work; but if it has kept a
        lent token by mistake, its next call says so. Takes time in proportion to the objects of the process.
        """
        return not self.outputs or any(
            type(kept) is LentToken and kept._input.owner is self for kept in gc.get_objects()
        )

    def statistics(self) -> Iterator[tuple[str, OperatorStatistics]]:
        """Yield its name and statistics, or those of each stage that it is made of; all stages run in one schedule."""
        dropped = sum(port.records for port in self.outputs if port.drops)
        for running in self.stages:
            received, sent = (running.messages_in, running.records_in), (running.messages_out, running.records_out)
            lost = dropped if running is self.stages[-1] else 0
            yield running.stage.name, OperatorStatistics(self.schedules, running.seconds, *received, *sent, lost)
        if not self.stages:
            received = sum(port.consumed for port in self.inputs), sum(port.records for port in self.inputs)
            sent = sum(port.sent for port in self.outputs), sum(port.records for port in self.outputs)
            yield self.name, OperatorStatistics(self.schedules, self.seconds, *received, *sent, dropped)


def _send(stages: Sequence[RunningStage], token: LentToken, batch: Batch, output: RunningOutput) -> None:
    """Send what the stages make of a batch; from the first that needs one substream at a time, of each by itself."""
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


class InputOperator:
    """The operator of an input on one worker: it holds the tokens of the handles, and does what its mailbox says.

    Args:
        instance: the operator as the worker runs it.
        host: the worker.
        token: its initial token.
        check: returns a batch as it is sent, given a number that counts the batches; None sends each as it comes.
    """

    def __init__(
        self,
        instance: OperatorInstance,
        host: OperatorHost,
        token: TimestampToken,
        check: Callable[[Batch, int], Batch] | None,
    ) -> None:
        assert instance.mailbox is not None, "the plan says which operators are inputs"
        self._instance = instance
        self._host = host
        self._mailbox = instance.mailbox
        self._mailbox.open(instance.name, token)
        self.tokens = self._mailbox.tokens
        self._check = check
        self._turns = count(1)  # from 1, so that a worker looks at other records than the driver

    def schedule(self, output: OutputPort) -> None:
        """Do what the mailbox says."""
        mailbox, flow, check = self._mailbox, self._host.flow, self._check
        while mailbox and not (flow.is_held and mailbox.next_sends):
            command = mailbox.take()
            if command.action == "send":
                token = self.tokens[command.handle]
                self._instance.time = token.time
                self._host.received = command
                self.send(output, token, command.batch if check is None else check(command.batch, next(self._turns)))
            else:
                self._use_handle(command, output)

    def _use_handle(self, command: InputCommand, output: OutputPort) -> None:
        match command.action:
            case "clone":
                self.tokens[command.handle] = self.tokens[command.origin].delayed(command.time)
            case "advance":
                self.tokens[command.handle].downgrade(command.time)
            case "end":
                token = self.tokens[command.handle]
                self._instance.time = token.time
                self.end(output, token, command.batch)
            case _:
                self.tokens.pop(command.handle).discard()

    def send(self, output: OutputPort, token: TimestampToken, batch: Batch) -> None:
        """Send a batch."""
        output.send(token, batch)

    def end(self, output: OutputPort, token: TimestampToken, keys: Sequence[Any]) -> None:
        """End the substreams with these keys; raises GraphError, as there are none."""
        raise GraphError(
            f"{self._instance.name} has no substreams that could end: declare them, flow.input(...).substreams("
            "name, key=...), without timeout=, by which they end themselves"
        )


class Mailbox:
    """Commands, oldest first, in an order that makes sense: none of a handle comes before that which makes it.

    A handle that was handed over is used by another feeder than the one that made it, and what two feeders send comes
    in any order. What one feeder sends keeps its order: all of it waits for a handle that is not there yet.

    Args:
        intake: counts what is taken from here.

    Attributes:
        tokens: that of each handle, by the handle's number; the operator keeps them here.
        begun: where handles that were handed over were then; of the first one, where it was closed.
        lanes: what each of another number of workers had not done, as (token, batch or keys, whether these have ended);
            the operator does it.
    """

    def __init__(self, intake: Intake) -> None:
        self.tokens: dict[int, TimestampToken] = {}
        self._intake = intake
        self._queue: deque[tuple[int, InputCommand]] = deque()
        self._known = {FIRST_HANDLE}
        self._early: dict[int, deque[InputCommand]] = {}
        self._saved: SavedMailbox | None = None
        self.begun: dict[int, InputPosition] = {}
        self.lanes: list[list[tuple[TimestampToken, Any, bool]]] = []

    def begins_with(self, saved: SavedMailbox | None) -> None:
        """Have it begin with the handles and batches of a snapshot; None for its first handle alone."""
        self._saved = saved

    def open(self, input_name: str, token: TimestampToken) -> None:
        """Make the tokens of the handles with which it begins, from the operator's initial token.

        What a snapshot has to send or to end is done by a handle of its own, which is closed right behind it.
        """
        if self._saved is None:
            self.tokens[FIRST_HANDLE] = token
            return
        self._known = set(self._saved.tokens)
        self.tokens.update((handle, token.delayed(time)) for handle, time in self._saved.tokens.items())
        for action, time, batch in self._saved.first:
            self.do_first(input_name, action, token.delayed(time), batch)
        for lane in self._saved.lanes:
            self.lanes.append([(token.delayed(time), batch, action == "end") for action, time, batch in lane])
        token.discard()

    def do_first(self, input_name: str, action: InputAction, token: TimestampToken, batch: Any) -> None:
        """Have the operator do something by a handle of its own; only before any feeder has sent something."""
        handle = -1 - len(self._queue)
        self.tokens[handle] = token
        self._queue.append((DRIVER, InputCommand(input_name, action, batch=batch, handle=handle)))
        self._queue.append((DRIVER, InputCommand(input_name, "close", handle=handle)))

    def undone(self) -> Iterator[tuple[int, InputCommand]]:
        """Yield the commands that the operator has not done, each with its feeder, in the order in which they came."""
        yield from self._queue
        for feeder, early in self._early.items():
            yield from ((feeder, command) for command in early)

    def put(self, feeder: int, command: InputCommand) -> None:
        """Take a command in."""
        early = self._early.get(feeder)
        if early is not None:
            early.append(command)
        elif _user(command) not in self._known:
            self._early[feeder] = deque([command])
        elif self._accept(feeder, command) and self._early:
            self._let_in()

    def _accept(self, feeder: int, command: InputCommand) -> bool:
        """Put a command in its place; return whether it makes a handle."""
        self._queue.append((feeder, command))
        if command.action == "close":
            self._known.discard(command.handle)
            note_position(self.begun, command)
        elif command.action == "clone":
            self._known.add(command.handle)
            note_position(self.begun, command)
            return True
        return False

    def _let_in(self) -> None:
        """Accept what has waited for handles that are there now."""
        is_made = True
        while is_made:
            is_made = False
            for feeder, early in list(self._early.items()):
                while early and _user(early[0]) in self._known:
                    is_made |= self._accept(feeder, early.popleft())
                if not early:
                    del self._early[feeder]

    def take(self) -> InputCommand:
        """Take the oldest command out."""
        feeder, command = self._queue.popleft()
        self._intake.count(feeder, command.size)
        return command

    @property
    def next_sends(self) -> bool:
        """Whether the oldest command sends a batch."""
        return bool(self._queue) and self._queue[0][1].action == "send"

    def __bool__(self) -> bool:
        return bool(self._queue)


def _user(command: InputCommand) -> int:
    """Return the handle that has to be there for a command."""
    return command.origin if command.action == "clone" else command.handle
