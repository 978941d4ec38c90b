"""The options of one subscriber: its condition on records, and the policy when it falls behind.

The publisher evaluates the condition and sends no other records.
"""

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from inspect import iscoroutinefunction
from operator import or_
from reprlib import repr as shortened
from typing import Any, Literal, TypeAlias, get_args

import cloudpickle

from tidewheel.batches.batches import is_arrow, keep, records
from tidewheel.progress.redaction import called
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.encoded_message import (
    EncodedMessage,
    decode,
    decode_batch,
    encode,
    encode_batch,
    place_of,
)
from tidewheel.pubsub.messages.wire import DataMessage

Delivery: TypeAlias = Literal["best_effort", "exactly_once"]
"""The guarantee of a topic. With ``"best_effort"``, subscribers receive only messages published while they are
connected."""


Slow: TypeAlias = Literal["disconnect", "drop_epochs", "block"]
"""The policy of a publisher when more messages wait for a subscriber than the publisher keeps.

``"disconnect"`` disconnects the subscriber with an error. ``"drop_epochs"`` leaves out whole epochs and names them.
``"block"`` makes the publishing dataflow and its sources wait, and disconnects a subscriber that does not read for
long.
"""

BLOCK_LIMIT_S = 60.0


class _UnfitRecord(ValueError):  # noqa: N818 - it names what is wrong
    """A condition cannot be evaluated for a record; the message has the reason."""


class Where:
    """A condition on records.

    Conditions with equal pickles are equal; ``one | other`` passes the records that either passes.

    Args:
        condition: a function of a record (a dict for a row of Arrow), or for tables an expression of `pyarrow.compute`,
            such as ``pc.field("n") > 1``.

    Raises:
        DeliveryError: the condition is neither a function nor an expression, or cannot be pickled.
    """

    def __init__(self, condition: Callable[[Any], object] | Any) -> None:
        if not callable(condition) and not _is_expression(condition):
            raise DeliveryError(
                f"where is a function of a record, or an expression such as pc.field('n') > 1, not {condition!r}"
            )
        if callable(condition) and (iscoroutinefunction(condition) or iscoroutinefunction(type(condition).__call__)):
            raise DeliveryError(
                f"where={called(condition)} is async, and a publisher awaits nothing: write it with def"
            )
        try:
            self._pickled: tuple[bytes, ...] = (cloudpickle.dumps(condition),)
        except Exception as error:
            raise DeliveryError(f"where={called(condition)} cannot be sent to a publisher: {error}") from error

    @cached_property
    def _conditions(self) -> list[Any]:
        return [cloudpickle.loads(pickled) for pickled in self._pickled]

    def of(self, message: DataMessage) -> DataMessage | None:
        """Return the message with the records that meet the condition: unchanged if all do, None if none does.

        Ends of substreams always pass.

        Raises:
            DeliveryError: the condition raised, or does not fit this kind of batch.
        """
        if message.encoding == "ends":
            return message
        batch = decode_batch(message)
        try:
            wanted = self._wanted(batch)
        except BaseException as error:
            if _may_be_of_signal(error):
                raise
            reason = str(error) if isinstance(error, _UnfitRecord) else f"{type(error).__name__}: {error}"
            raise DeliveryError(f"where= failed for a batch at time {message.time!r}: {reason}") from error
        count = len(wanted)
        if not count:
            return None
        if count == message.records:
            return message
        return encode_batch(message.time, wanted)

    def _wanted(self, batch: Any) -> Any:
        if all(map(_is_expression, self._conditions)):
            if not is_arrow(batch):
                raise TypeError(f"an expression goes with Arrow tables, and here is a {type(batch).__qualname__}")
            return batch.filter(reduce(or_, self._conditions))
        return keep(batch, [self._meets(record) for record in records(batch)])

    def _meets(self, record: Any) -> bool:
        try:
            return any(bool(condition(record)) for condition in self._conditions)
        except BaseException as error:
            if _may_be_of_signal(error):
                raise
            raise _UnfitRecord(f"{type(error).__name__}: {error}, for record {shortened(record)}") from error

    def __or__(self, other: "Where") -> "Where":
        either = Where.__new__(Where)
        either._pickled = tuple(dict.fromkeys(self._pickled + other._pickled))
        return either

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Where) and self._pickled == other._pickled

    def __hash__(self) -> int:
        return hash(self._pickled)

    def __getstate__(self) -> tuple[bytes, ...]:
        return self._pickled

    def __setstate__(self, state: tuple[bytes, ...]) -> None:
        self._pickled = state


def _may_be_of_signal(error: BaseException) -> bool:
    return not isinstance(error, Exception) and threading.current_thread() is threading.main_thread()


def _is_expression(condition: object) -> bool:
    # Unpickling an expression does not import pyarrow.compute.
    compute = sys.modules.get("pyarrow._compute")
    return compute is not None and isinstance(condition, compute.Expression)


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """A filter that passes the records that meet a condition, and messages without a batch."""

    where: Where

    def of(self, message: EncodedMessage) -> EncodedMessage | None:
        """Return the message with the records that meet the condition: unchanged if all do, None if none does.

        Raises:
            DeliveryError: the condition raised, or does not fit this kind of batch.
        """
        event = decode(message)
        if not isinstance(event, DataMessage):
            return message
        wanted = self.where.of(event)
        if wanted is event:
            return message
        place = place_of(message)
        return None if wanted is None or place is None else encode(wanted, place.number)

    def __or__(self, other: "MessageFilter") -> "MessageFilter":
        return MessageFilter(self.where | other.where)


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """The options that a subscriber sends to the publishers.

    Attributes:
        block_limit_s: how many seconds the subscriber may block a publisher without reading.

    Raises:
        DeliveryError: the policy does not exist, or the limit is not a number of seconds.
    """

    where: Where | None = None
    slow: Slow = "disconnect"
    block_limit_s: float = BLOCK_LIMIT_S

    def __post_init__(self) -> None:
        if self.slow not in get_args(Slow):
            raise DeliveryError(f"slow is one of {', '.join(map(repr, get_args(Slow)))}, not {self.slow!r}")
        limit: object = self.block_limit_s
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
            raise DeliveryError(f"block_limit_s is a number of seconds above 0, not {limit!r}")


EVERYTHING = DeliveryOptions()
"""The options of a subscriber that sets none."""
