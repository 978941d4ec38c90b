"""The input operator: one worker's end of what is fed from outside, and the check of each batch that is fed.

A type is compared with a sample of the records of a batch: what is wrong is mostly wrong throughout, and to look at all
of them would cost more than many operators do. A schema is compared with that of the batch, which holds for all rows.
The driver checks a batch before it sends it. A worker checks it again, as another process may have sent it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import compress, count
from operator import not_
from typing import Any, Literal, Protocol, TypeAlias, get_origin

from tidewheel.operators.records.failed import Failed
from tidewheel.operators.substreams.labeller import Labeller, SubstreamKeys
from tidewheel.operators.tables.columns import check_schema
from tidewheel.progress import GraphError, Time
from tidewheel.pubsub.catalog.topic_schema import classes_of
from tidewheel.runtime import OutputPort, Schedule, TimestampToken
from tidewheel.runtime.worker.envelope import InputCommand
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of, note_received
from tidewheel.transport.batches import Batch, is_numpy, is_schema, keep, length, records, take_slice

_MOST_CHECKED = 32


class Schema(Protocol):
    """A `pyarrow.Schema`, as far as it matters here."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def field(self, i: Any, /) -> Any:
        """Return a column's name, type, and whether it may have nulls."""


OnBadRecord: TypeAlias = Literal["divert"]
"""The treatment of a record that is not of the type of its input, other than that `send` raises."""


def check_for(name: str, kind: object, on_bad_record: OnBadRecord | None = None) -> "RecordCheck | SchemaCheck | None":
    """Return the check for records of a type, or for batches of a `pyarrow.Schema`, of the input ``name``, if any.

    >>> check = check_for("numbers", int)
    >>> check([1, 2])
    [1, 2]
    >>> check(["1"])
    Traceback (most recent call last):
        ...
    TypeError: input 'numbers' has records of int, not str: '1'

    Raises:
        GraphError: ``kind`` is neither, or ``on_bad_record`` is something else or comes without a type.
    """
    if on_bad_record not in (None, "divert") or (on_bad_record is not None and kind is None):
        raise GraphError(
            f'input {name!r}: on_bad_record is None, or "divert" for an input with a type of records: it is '
            f"{on_bad_record!r}, and the type {kind!r}"
        )
    if kind is None:
        return None
    if is_schema(kind):
        return SchemaCheck(kind)
    try:
        return RecordCheck(name, kind, classes_of(kind))
    except TypeError:
        raise GraphError(
            f"input {name!r}: what its records are is said by a class, such as int or tuple[str, int], or by a "
            f"pyarrow.Schema, not by {kind!r}"
        ) from None


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """The check of batches for a `pyarrow.Schema`."""

    schema: Any

    def __call__(self, batch: Batch, turn: int = 0) -> Batch:
        """Return a batch as a table of the schema; raise TypeError if it has another one."""
        return check_schema(batch, self.schema)

    def divide(self, batch: Batch, *_: object) -> tuple[Batch | None, list[Failed[Any]] | None]:
        """Return a batch and None, or None and a failure for each row of a batch that has another schema."""
        try:
            return self(batch), None
        except TypeError as error:
            return None, [Failed(row, "TypeError", str(error)) for row in records(batch)]


@dataclass(frozen=True, slots=True)
class RecordCheck:
    """The check of the records of the input ``name`` for a type, by the classes that this permits."""

    name: str
    kind: Any
    classes: tuple[type, ...]

    def __call__(self, batch: Batch, turn: int = 0) -> Batch:
        """Return a batch; raise TypeError if one of up to 32 of its records is of another type.

        They are evenly spread. Another ``turn`` looks at others.
        """
        for record in self._some(batch, -(-length(batch) // _MOST_CHECKED) or 1, turn):
            if not isinstance(record, self.classes):
                raise TypeError(self._reason(record))
        return batch

    def divide(self, batch: Batch, *_: object) -> tuple[Batch | None, list[Failed[Any]] | None]:
        """Return the records of the type, and a failure for each of the others; None for none."""
        wanted = [isinstance(record, self.classes) for record in self._some(batch, 1, 0)]
        if all(wanted):
            return batch, None
        if len(wanted) < length(batch):  # all records of an Arrow table or an array of numbers are of one type
            wanted = [False] * length(batch)
        failed = compress(records(batch), map(not_, wanted))
        return keep(batch, wanted), [Failed(record, "TypeError", self._reason(record)) for record in failed]

    def _some(self, batch: Batch, step: int, turn: int) -> list[Any]:
        is_mixed = isinstance(batch, list) or (is_numpy(batch) and batch.dtype.hasobject)
        return records(batch[turn % step :: step] if is_mixed else take_slice(batch, 0, 1))

    def _reason(self, record: Any) -> str:
        kind = self.kind
        shown = kind.__name__ if isinstance(kind, type) and get_origin(kind) is None else str(kind)
        return f"input {self.name!r} has records of {shown}, not {type(record).__qualname__}: {record!r:.200}"


@dataclass(frozen=True, slots=True)
class InputBuild:
    """The build function of an operator that does what its mailbox says.

    It holds the tokens that the handles of the input stand for; each batch goes through ``check`` first, and is then
    ``divided`` into substreams, if that is given.
    """

    check: RecordCheck | SchemaCheck | None = None
    divided: SubstreamKeys | None = None

    def __call__(self, context: OperatorContext) -> Schedule:
        """Return this worker's schedule function."""
        return _Input(context, self.check, self.divided).schedule


class _Input:
    """One worker's share of an input."""

    def __init__(
        self, context: OperatorContext, check: RecordCheck | SchemaCheck | None, divided: SubstreamKeys | None
    ) -> None:
        mailbox = instance_of(context).mailbox
        assert mailbox is not None, "the plan says which operators are inputs"
        self._context = context
        self._check = check
        self._turns = count(1)  # from 1, so that a worker looks at other records than the driver
        self._mailbox = mailbox
        self._tokens = mailbox.tokens
        mailbox.open(context.name, context.token())
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
                batch = command.batch if self._check is None else self._check(command.batch, next(self._turns))
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
