"""The input operator: one worker's end of what is fed from outside, and the check of each batch that is fed.

A type is compared with the first record of a batch: what is wrong is mostly wrong throughout, and looking at all of
them would cost more than many an operator. A schema is compared with that of the batch, which holds for all its rows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, get_origin

from tidewheel.operators.substreams.labeller import Labeller, SubstreamKeys
from tidewheel.operators.tables.columns import check_schema, is_schema
from tidewheel.progress import GraphError, Time
from tidewheel.pubsub.catalog.topic_schema import classes_of
from tidewheel.runtime import OutputPort, Schedule, TimestampToken
from tidewheel.runtime.worker.envelope import FIRST_HANDLE, InputCommand
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of, note_received
from tidewheel.transport.batches import Batch, records, take_slice

Check: TypeAlias = Callable[[Batch], Batch]
"""Returns a batch, which is not empty; raises TypeError if its records are of another kind."""


class Schema(Protocol):
    """A `pyarrow.Schema`, as far as it matters here."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def field(self, i: Any, /) -> Any:
        """Return a column's name, type, and whether it may have nulls."""


def check_for(name: str, kind: object) -> Check:
    """Return the check for records of a type, or for batches of a `pyarrow.Schema`, of the input ``name``.

    >>> check = check_for("numbers", int)
    >>> check([1, 2])
    [1, 2]
    >>> check(["1"])
    Traceback (most recent call last):
        ...
    TypeError: input 'numbers' has records of int, not str: '1'

    Raises:
        GraphError: ``kind`` is neither.
    """
    if is_schema(kind):
        return lambda batch: check_schema(batch, kind)
    try:
        classes = classes_of(kind)
    except TypeError:
        raise GraphError(
            f"input {name!r}: what its records are is said by a class, such as int or tuple[str, int], or by a "
            f"pyarrow.Schema, not by {kind!r}"
        ) from None
    return lambda batch: _check_first(name, batch, kind, classes)


def _check_first(name: str, batch: Batch, kind: object, classes: tuple[type, ...]) -> Batch:
    (record,) = records(take_slice(batch, 0, 1))
    if isinstance(record, classes):
        return batch
    shown = kind.__name__ if isinstance(kind, type) and get_origin(kind) is None else str(kind)
    raise TypeError(f"input {name!r} has records of {shown}, not {type(record).__qualname__}: {record!r:.200}")


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
        self._labeller = None if divided is None else Labeller(context, divided)

    def schedule(self, output: OutputPort) -> None:
        """Do what the mailbox says."""
        mailbox, labeller = self._mailbox, self._labeller
        if labeller is not None:
            labeller.go_on(output)
        while mailbox and not (self._context.is_held and mailbox.next_sends):
            command = mailbox.take()
            if command.action == "send":
                token = self._tokens[command.handle]
                instance_of(self._context).work_at(token.time)
                note_received(self._context, command)
                batch = command.batch if self._check is None else self._check(command.batch)
                if labeller is None:
                    output.send(token, batch)
                else:
                    labeller.send(output, token, batch)
            else:
                self._use_handle(command, output)
        if labeller is not None:
            labeller.pass_to(self._may_come, has_ended=not self._tokens)

    def _use_handle(self, command: InputCommand, output: OutputPort) -> None:
        tokens = self._tokens
        match command.action:
            case "clone":
                tokens[command.handle] = tokens[command.origin].delayed(command.time)
            case "advance":
                tokens[command.handle].downgrade(command.time)
            case "end":
                self._end(output, tokens[command.handle], command.batch)
            case _:
                tokens.pop(command.handle).discard()

    def _end(self, output: OutputPort, token: TimestampToken, keys: Iterable[object]) -> None:
        instance_of(self._context).work_at(token.time)
        if self._labeller is None:
            raise GraphError(
                f"{self._context.name} has no substreams that could end: declare them, flow.input(...).substreams("
                "name, key=...), without timeout=, by which they end themselves"
            )
        self._labeller.end(output, token, keys)

    def _may_come(self, time: Time) -> bool:
        return any(token.domain.less_equal(token.time, time) for token in self._tokens.values())
