"""The operator of an input."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from tidewheel.batches.batches import Batch
from tidewheel.progress import GraphError
from tidewheel.runtime.messages.envelope import InputCommand
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.operator_host import OperatorHost
from tidewheel.runtime.worker.operator_instance import OperatorInstance
from tidewheel.runtime.worker.ports import OutputPort


class InputOperator:
    """The operator of an input on one worker: it holds the handles' tokens, and executes the commands in its mailbox.

    Args:
        check: receives a batch and its number, and returns the batch to send. With None, batches are sent unchanged.
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
        self._turns = count(1)  # from 1, so that a worker checks other records than the driver does

    def schedule(self, output: OutputPort) -> None:
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
        output.send(token, batch)

    def end(self, output: OutputPort, token: TimestampToken, keys: Sequence[Any]) -> None:
        """Raise GraphError, since the stream has no substreams to end."""
        raise GraphError(
            f"{self._instance.name} has no substreams that could end: declare them, flow.input(...).substreams("
            "name, key=...)"
        )
