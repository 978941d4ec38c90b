"""The input operator: one worker's end of what is fed from outside."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidewheel.operators.records.record_kind import Check
from tidewheel.operators.substreams.labeller import Labeller, SubstreamKeys
from tidewheel.progress import GraphError, Time
from tidewheel.runtime import OutputPort, Schedule, TimestampToken
from tidewheel.runtime.worker.envelope import FIRST_HANDLE, InputCommand
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.transport.batches import Batch


class _Whole:
    """Sends batches as they are."""

    is_waiting = False

    def __init__(self, name: str) -> None:
        self._name = name

    def send(self, output: OutputPort, token: TimestampToken, batch: Batch) -> None:
        output.send(token, batch)

    def end(self, output: OutputPort, token: TimestampToken, keys: Iterable[object]) -> None:
        raise GraphError(
            f"{self._name} has no substreams that could end: declare them, flow.input(...).substreams(name, key=...), "
            "without timeout=, by which they end themselves"
        )

    def go_on(self, output: OutputPort) -> None:
        """Do nothing: nothing waits."""

    def pass_to(self, may_come: Callable[[Time], bool]) -> None:
        """Do nothing: nothing has ended."""

    def finish(self) -> None:
        """Do nothing: nothing is open."""


@dataclass(frozen=True, slots=True)
class InputBuild:
    """The build function of an operator that does what its mailbox says.

    It holds the tokens that the handles of the input stand for; each batch goes through ``check`` first, and is then
    ``divided`` into substreams, if that is given.
    """

    check: Check | None = None
    divided: SubstreamKeys | None = None

    def __call__(self, context: OperatorContext) -> Schedule:
        """Return this worker's schedule function."""
        return _Input(context, self.check, self.divided).schedule


class _Input:
    """One worker's share of an input."""

    def __init__(self, context: OperatorContext, check: Check | None, divided: SubstreamKeys | None) -> None:
        mailbox = instance_of(context).mailbox
        assert mailbox is not None, "the plan says which operators are inputs"
        self._context = context
        self._check = check
        self._mailbox = mailbox
        self._tokens = mailbox.tokens
        self._tokens[FIRST_HANDLE] = context.token()
        self._sender: Labeller | _Whole = _Whole(context.name) if divided is None else Labeller(context, divided)

    def schedule(self, output: OutputPort) -> None:
        """Do what the mailbox says."""
        mailbox = self._mailbox
        self._sender.go_on(output)
        while mailbox and not (self._context.is_held and mailbox.next_sends):
            command = mailbox.take()
            if command.action == "send":
                token = self._tokens[command.handle]
                batch = command.batch
                instance_of(self._context).work_at(token.time)
                if self._check is not None:
                    batch = self._check(batch)
                self._sender.send(output, token, batch)
            else:
                self._use_handle(command, output)
        if not self._tokens:
            self._sender.pass_to(self._may_come)
            self._sender.finish()

    def _use_handle(self, command: InputCommand, output: OutputPort) -> None:
        tokens = self._tokens
        if command.action == "clone":
            tokens[command.handle] = tokens[command.origin].delayed(command.time)
        elif command.action == "end":
            instance_of(self._context).work_at(tokens[command.handle].time)
            self._sender.end(output, tokens[command.handle], command.batch)
        else:
            if command.action == "advance":
                tokens[command.handle].downgrade(command.time)
            else:
                tokens.pop(command.handle).discard()
            self._sender.pass_to(self._may_come)

    def _may_come(self, time: Time) -> bool:
        return any(token.domain.less_equal(token.time, time) for token in self._tokens.values())
