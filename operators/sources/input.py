"""The operator of an input, and the check of each batch that a program sends to it.

The check compares a sample of the records with the type, since a wrong batch is usually wrong throughout. The driver
checks a batch before sending. The worker checks it again, since another process may have sent it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from operator import not_
from reprlib import repr as short
from typing import Any, Protocol, get_origin

from tidewheel.batches.batches import Batch, is_numpy, is_schema, keep, length, records, take_slice
from tidewheel.host.safe_text import safe_text
from tidewheel.operators.base.setting_aside import Refuse
from tidewheel.operators.keys.columns import check_schema
from tidewheel.operators.substreams.labeller import Labeller, SubstreamKeys
from tidewheel.progress import GraphError
from tidewheel.pubsub.messages.topic_schema import classes_of
from tidewheel.runtime.description.plan import Schedule
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.input_operator import InputOperator
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of, instance_of
from tidewheel.runtime.worker.ports import OutputPort

_MOST_CHECKED = 32


class Schema(Protocol):
    """The part of a `pyarrow.Schema` that tidewheel needs."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def field(self, i: Any, /) -> Any:
        """Return a column: its name, its type, and whether it may have nulls."""


def check_for(name: str, kind: object) -> "RecordCheck | SchemaCheck | None":
    """Return the check of the input ``name``, for a type of records or a `pyarrow.Schema`; None if ``kind`` is None.

    >>> check = check_for("numbers", int)
    >>> check([1, 2])
    [1, 2]
    >>> check(["1"])
    Traceback (most recent call last):
        ...
    TypeError: input 'numbers' has records of int, not str: '1'

    Raises:
        GraphError: ``kind`` is neither a type nor a schema.
    """
    if kind is None:
        return None
    if is_schema(kind):
        return SchemaCheck(kind)
    try:
        return RecordCheck(name, kind, classes_of(kind))
    except TypeError:
        raise GraphError(
            f"input {name!r}: what its records are is said by a class, such as int or tuple[str, int], or by a "
            f"pyarrow.Schema, not by {short(kind)}"
        ) from None


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """The check of batches for a `pyarrow.Schema`."""

    schema: Any

    def __call__(self, batch: Batch, turn: int = 0) -> Batch:
        """Return a batch as a table with the schema; raise TypeError if the batch has another schema."""
        return check_schema(batch, self.schema)

    def divide(self, batch: Batch, refuse: Refuse) -> Batch:
        """Return a batch with the schema; for any other batch, refuse each row and return nothing."""
        try:
            return self(batch)
        except TypeError as error:
            for row in records(batch):
                refuse(row, error)
            return []


@dataclass(frozen=True, slots=True)
class RecordCheck:
    """The check of an input's records for a type, given as its permitted classes."""

    name: str
    kind: Any
    classes: tuple[type, ...]

    def __call__(self, batch: Batch, turn: int = 0) -> Batch:
        """Return the batch; raise TypeError if one of up to 32 of its records has another type.

        The records are evenly spread over the batch, and differ with ``turn``.
        """
        for record in self._some(batch, -(-length(batch) // _MOST_CHECKED) or 1, turn):
            if not isinstance(record, self.classes):
                raise TypeError(self._reason(record))
        return batch

    def divide(self, batch: Batch, refuse: Refuse) -> Batch:
        """Return the records of the type; refuse all others."""
        wanted = [isinstance(record, self.classes) for record in self._some(batch, 1, 0)]
        if all(wanted):
            return batch
        if len(wanted) < length(batch):  # all records of an Arrow table or an array of numbers are of one type
            wanted = [False] * length(batch)
        for record in compress(records(batch), map(not_, wanted)):
            refuse(record, TypeError(self._reason(record)))
        return keep(batch, wanted)

    def _some(self, batch: Batch, step: int, turn: int) -> list[Any]:
        is_mixed = isinstance(batch, list) or (is_numpy(batch) and batch.dtype.hasobject)
        return records(batch[turn % step :: step] if is_mixed else take_slice(batch, 0, 1))

    @property
    def shown(self) -> str:
        """The type, for messages."""
        kind = self.kind
        return kind.__name__ if isinstance(kind, type) and get_origin(kind) is None else str(kind)

    def _reason(self, record: Any) -> str:
        given = f"{type(record).__qualname__}: {safe_text(record):.200}"
        return f"input {self.name!r} has records of {self.shown}, not {given}"


@dataclass(frozen=True, slots=True)
class InputBuild:
    """The build function of an `InputOperator`.

    Each batch passes ``check``, and is then divided into substreams if ``divided`` is given.
    """

    check: RecordCheck | SchemaCheck | None = None
    divided: SubstreamKeys | None = None

    def __call__(self, context: OperatorContext) -> Schedule:
        """Return this worker's schedule function."""
        if self.divided is not None:
            return _DividedInput(context, self.check, self.divided).schedule
        return InputOperator(instance_of(context), host_of(context), context.token(), self.check).schedule


class _DividedInput(InputOperator):
    """The operator of an input whose records belong to substreams."""

    def __init__(
        self, context: OperatorContext, check: RecordCheck | SchemaCheck | None, divided: SubstreamKeys
    ) -> None:
        super().__init__(instance_of(context), host_of(context), context.token(), check)
        for lane in self._mailbox.lanes:
            lane[:] = [(token, it if is_end or check is None else check(it, 1), is_end) for token, it, is_end in lane]
        self._labeller = Labeller(context, divided)

    def schedule(self, output: OutputPort) -> None:
        self._labeller.go_on(output)
        super().schedule(output)
        left = [(token.domain, token.time) for token in self.tokens.values()]
        self._labeller.pass_to(lambda time: any(one.less_equal(at, time) for one, at in left), has_ended=not left)

    def send(self, output: OutputPort, token: TimestampToken, batch: Batch) -> None:
        self._labeller.send(output, token, batch)

    def end(self, output: OutputPort, token: TimestampToken, keys: Sequence[Any]) -> None:
        self._labeller.end(output, token, keys)
