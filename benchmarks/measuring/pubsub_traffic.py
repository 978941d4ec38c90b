"""The traffic of the benchmarks of topics, the same for tidewheel and for its peers, and the receipts of subscribers.

A turn is a number of batches and one more that says that it is over. All contestants make them as they are sent.
"""

import time
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

Kind: TypeAlias = Literal["stamps", "tables", "lists", "sized tables"]

ROWS_A_TABLE, DIFFERENT_TABLES = 10_000, 8
_SIZED_ROW_BYTES = 16
RECORDS_A_LIST, DIFFERENT_LISTS = 1000, 20
_LOREM = "a record of about a hundred bytes, when its number and the time of sending are added"
OVER = -1
"""The number of the record that says that a turn is over."""
_ARROW = b"\xff\xff\xff\xff"
_RECORDS = msgspec.msgpack.Decoder(list[tuple[int, int, str]])


class Order(NamedTuple):
    """What a turn is to be.

    Attributes:
        kind: one small record a batch with the time of sending, Arrow tables, or lists of records.
        messages: how many batches.
        rate: how many of them a second; 0 for as many as there can be.
        size: how many bytes a table has, encoded; of those that are to have a certain size.
    """

    kind: Kind
    messages: int
    rate: float = 0.0
    size: int = 0


class Turn:
    """The batches of a turn, one after the other; each is made, with the time in it, when it is asked for."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._make = _maker(order)
        self._next = 0
        self._began_ns = time.perf_counter_ns()

    @property
    def is_over(self) -> bool:
        """Whether all have been made."""
        return self._next > self._order.messages

    @property
    def is_paced(self) -> bool:
        """Whether each has its time."""
        return self._order.rate > 0

    @property
    def left_s(self) -> float:
        """How many seconds are left until the next batch is due; 0 or less if it is."""
        if not self._order.rate:
            return 0.0
        return self._next / self._order.rate - (time.perf_counter_ns() - self._began_ns) / 1e9

    def next(self) -> Any:
        """Make the next batch."""
        number = self._next
        self._next += 1
        return self._make(number) if number < self._order.messages else [(OVER, self._began_ns, "")]

    def paced(self) -> Iterator[Any]:
        """Make all, each when it is due."""
        while not self.is_over:
            wait(self.left_s)
            yield self.next()


def wait(seconds: float) -> None:
    """Sleep, if that is to be; about 50 us longer than asked."""
    if seconds > 0:
        time.sleep(seconds)


class Receipt(msgspec.Struct):
    """What one subscriber has had of a turn.

    Attributes:
        messages: how many batches came.
        records: how many records were in them.
        seconds: how long it took, from before the first was sent until it was over here.
        latencies_ns: how long each took from before it was sent, in nanoseconds; of stamps only.
    """

    messages: int = 0
    records: int = 0
    seconds: float = 0.0
    latencies_ns: list[int] = []


class Receiver:
    """What a subscriber does with its batches.

    Args:
        tell: called with the receipt whenever a turn is over.
    """

    def __init__(self, tell: Callable[[Receipt], object]) -> None:
        self._tell = tell
        self._receipt = Receipt()

    def take(self, batch: Any) -> None:
        """Take a batch that has been decoded just now."""
        now_ns = time.perf_counter_ns()
        receipt = self._receipt
        if len(batch) == 1:
            ((number, stamp_ns, _),) = batch
            if number == OVER:
                receipt.seconds = (now_ns - stamp_ns) / 1e9
                self._receipt = Receipt()
                self._tell(receipt)
                return
            receipt.latencies_ns.append(now_ns - stamp_ns)
        receipt.messages += 1
        receipt.records += len(batch)


# ---------------------------------------------------------------------- batches, and how peers encode them


def _make_stamp(number: int) -> Any:
    return [(number, time.perf_counter_ns(), _LOREM)]


@cache
def _lists() -> list[list[tuple[int, int, str]]]:
    random = Random(1)
    return [
        [(number, random.randrange(1 << 40), f"record {random.randrange(10**6)}") for number in range(RECORDS_A_LIST)]
        for _ in range(DIFFERENT_LISTS)
    ]


@cache
def _tables() -> list["pa.Table"]:
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(1)
    return [
        pa.table(
            {
                "number": pa.array(range(ROWS_A_TABLE), pa.int64()),
                "value": pa.array(random.random(ROWS_A_TABLE)),
                "name": pa.array([f"name {number}" for number in random.integers(1000, size=ROWS_A_TABLE)]),
            }
        )
        for _ in range(DIFFERENT_TABLES)
    ]


@cache
def _sized_tables(size: int) -> list["pa.Table"]:
    """Return tables of about ``size`` bytes each, when they are encoded."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(1)

    def table(rows: int) -> "pa.Table":
        return pa.table({"number": random.integers(1 << 40, size=rows), "value": random.random(rows)})

    rows = max(2, (size - len(encode(table(2)))) // _SIZED_ROW_BYTES + 2)
    return [table(rows) for _ in range(DIFFERENT_TABLES)]


def _different(order: Order) -> list[Any]:
    """Return the batches that come round and round."""
    if order.kind == "sized tables":
        return _sized_tables(order.size)
    return _tables() if order.kind == "tables" else _lists()


def _maker(order: Order) -> Callable[[int], Any]:
    """Return what makes the batch of a number."""
    if order.kind == "stamps":
        return _make_stamp
    batches = _different(order)
    return lambda number: batches[number % len(batches)]


def prepare() -> None:
    """Make what is made once."""
    _lists()
    _tables()


def encode(batch: Any) -> Any:
    """Return a batch as bytes: a list as MessagePack, which is faster than a pickle; a table as an Arrow IPC stream."""
    if isinstance(batch, list):
        return msgspec.msgpack.encode(batch)
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    return sink.getvalue()


def decode(payload: Any) -> Any:
    """Return the batch that was encoded."""
    if payload[:4] != _ARROW:
        return _RECORDS.decode(payload)
    import pyarrow as pa

    with pa.ipc.open_stream(payload) as reader:
        return reader.read_all()


def encoded_bytes(order: Order) -> float:
    """Return how many bytes a batch has when it is encoded, on average; of stamps it is not told."""
    sizes = [len(encode(batch)) for batch in _different(order)]
    return sum(sizes) / len(sizes)
