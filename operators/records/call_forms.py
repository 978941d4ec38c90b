"""The forms of a call: how many records its argument has, and how its result is divided among them.

A form cuts batches into items, which are records or pieces of batches. An item waits, is called for, gets a result and
is set aside as a whole. A call takes the first waiting items, in their order.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, islice
from types import TracebackType
from typing import Any, NamedTuple

from tidewheel.batches.batches import (
    Batch,
    check_batch,
    concatenate,
    copy_of,
    is_arrow,
    is_numpy,
    length,
    records,
    size_in_bytes,
    take_slice,
)
from tidewheel.batches.held_bytes import RecordSizes
from tidewheel.host.safe_text import safe_text
from tidewheel.operators.base.setting_aside import Aside, letter
from tidewheel.progress.redaction import called

_LONGEST_RECORD = 200


class NextCall(NamedTuple):
    """The number of waiting items that the next call takes, and whether it has no room for more."""

    items: int
    is_full: bool


class CallForm(ABC):
    """One form of a call."""

    @property
    @abstractmethod
    def most_records(self) -> int:
        """The greatest number of records of a call."""

    @abstractmethod
    def items(self, batch: Batch) -> list[Any]:
        """Return the items of a batch."""

    @abstractmethod
    def size(self, item: Any) -> int:
        """Return the number of records of an item."""

    @abstractmethod
    def bytes(self, item: Any) -> int:
        """Return about the bytes of an item."""

    @abstractmethod
    def next_call(self, waiting: Iterable[Any], count: int) -> NextCall:
        """Return what the next call takes of ``count`` waiting items, at least one."""

    @abstractmethod
    def argument(self, items: list[Any]) -> Any:
        """Return a new argument, which the function may change."""

    @abstractmethod
    def results(self, items: list[Any], result: Any, function: Any) -> list[Any]:
        """Return the result of each item; raise TypeError if the result of the call does not have all of them."""

    @abstractmethod
    def aside(self, item: Any, error: BaseException, traceback: TracebackType | None) -> Any:
        """Return the result of an item that is set aside."""

    @abstractmethod
    def batches(self, results: list[Any]) -> Iterable[Batch]:
        """Return the batches to send, for the results of some items."""

    @abstractmethod
    def shown(self, items: list[Any]) -> str:
        """Return the items as short text, for errors."""


class _OfRecords(CallForm):
    def items(self, batch: Batch) -> list[Any]:
        return records(batch)

    def size(self, item: Any) -> int:
        return 1

    def bytes(self, item: Any) -> int:
        return size_in_bytes([item], RecordSizes())

    def aside(self, item: Any, error: BaseException, traceback: TracebackType | None) -> Any:
        return Aside(letter(item, error, traceback=traceback))

    def batches(self, results: list[Any]) -> Iterable[Batch]:
        return [results]


class SingleRecord(_OfRecords):
    """A call has one record."""

    @property
    def most_records(self) -> int:
        return 1

    def next_call(self, waiting: Iterable[Any], count: int) -> NextCall:
        return NextCall(1, is_full=True)

    def argument(self, items: list[Any]) -> Any:
        return items[0]

    def results(self, items: list[Any], result: Any, function: Any) -> list[Any]:
        return [result]

    def shown(self, items: list[Any]) -> str:
        return short(items[0])


@dataclass(frozen=True, slots=True)
class ListOfRecords(_OfRecords):
    """A call has a list of up to ``batch_size`` records, and returns a list."""

    batch_size: int

    @property
    def most_records(self) -> int:
        return self.batch_size

    def next_call(self, waiting: Iterable[Any], count: int) -> NextCall:
        return NextCall(min(self.batch_size, count), is_full=count >= self.batch_size)

    def argument(self, items: list[Any]) -> Any:
        return items[:]

    def results(self, items: list[Any], result: Any, function: Any) -> list[Any]:
        if not isinstance(result, list | tuple) or len(result) != len(items):
            raise TypeError(
                "map_async with batch_size= calls a function that returns a list with the result of each record of its "
                f"list; for {len(items)} records {called(function)} returned {short(result)}"
            )
        return list(result)

    def shown(self, items: list[Any]) -> str:
        return short(items)


@dataclass(frozen=True, slots=True)
class PieceOfBatches(CallForm):
    """A call has a batch of up to ``batch_size`` records, of the kind that arrives, and returns a batch of any kind.

    A record batch of Arrow becomes a table. Items are pieces of batches. Those of one kind, and of one schema, go into
    one call.
    """

    batch_size: int
    model: str
    """The name of the model, for errors."""

    @property
    def most_records(self) -> int:
        return self.batch_size

    def items(self, batch: Batch) -> list[Any]:
        count = length(batch)
        if count <= self.batch_size:
            return [batch]
        return [take_slice(batch, start, start + self.batch_size) for start in range(0, count, self.batch_size)]

    def size(self, item: Any) -> int:
        return length(item)

    def bytes(self, item: Any) -> int:
        return size_in_bytes(item, RecordSizes())

    def next_call(self, waiting: Iterable[Any], count: int) -> NextCall:
        first, taken, total = None, 0, 0
        for item in islice(waiting, count):
            total += length(item)
            if first is None:
                first = item
            elif total > self.batch_size or not _fit(first, item):
                return NextCall(taken, is_full=True)
            taken += 1
        return NextCall(taken, is_full=total >= self.batch_size)

    def argument(self, items: list[Any]) -> Any:
        made = copy_of(items[0]) if len(items) == 1 else concatenate(items)
        if is_arrow(made):
            import pyarrow as pa

            # Ray pickles a slice of a table without the rest, but not a slice of a record batch.
            return pa.Table.from_batches([made]) if isinstance(made, pa.RecordBatch) else made
        return made

    def results(self, items: list[Any], result: Any, function: Any) -> list[Any]:
        result = list(result) if isinstance(result, tuple) else result
        sizes = list(map(length, items))
        try:
            check_batch(result)
            found = length(result)
        except TypeError:
            found = -1
        if found != sum(sizes):
            returned = f"{found} results" if found >= 0 else short(result)
            raise TypeError(
                "map_actors calls a model that returns a list, an Arrow table or a NumPy array with the result of each "
                f"record of its batch; for {sum(sizes)} records that of {self.model} returned {returned}"
            )
        return [take_slice(result, end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]

    def aside(self, item: Any, error: BaseException, traceback: TracebackType | None) -> Any:
        each = item if isinstance(item, list) else [item]
        return [Aside(letter(record, error, traceback=traceback)) for record in each]

    def batches(self, results: list[Any]) -> Iterable[Batch]:
        return results

    def shown(self, items: list[Any]) -> str:
        if isinstance(items[0], list):
            return short([record for item in items for record in item])
        return f"a {type(items[0]).__name__} of {sum(map(length, items))} records"


def _fit(one: Batch, other: Batch) -> bool:
    """Tell whether two pieces are joined without a change of their kind."""
    if is_arrow(one):
        return is_arrow(other) and bool(one.schema.equals(other.schema))
    if is_numpy(one):
        return is_numpy(other) and one.dtype == other.dtype and one.shape[1:] == other.shape[1:]
    return isinstance(other, list)


def short(record: Any) -> str:
    text = safe_text(record)
    return text if len(text) <= _LONGEST_RECORD else f"{text[:_LONGEST_RECORD]}..."
