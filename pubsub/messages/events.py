"""The events of a subscription: batches, moves of the frontier, and the end; and whole epochs of batches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from tidewheel.batches.batches import records
from tidewheel.display.html_table import html_table
from tidewheel.progress import Antichain, Time
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.encoded_message import decode_batch
from tidewheel.pubsub.messages.topic_schema import TopicSchema
from tidewheel.pubsub.messages.wire import DataMessage


@dataclass(slots=True)
class SubscriberStatistics:
    """The counts of a subscriber so far, in messages and batches."""

    received: int = 0
    duplicates: int = 0
    delivered: int = 0
    filtered: int = 0
    decoded: int = 0
    epochs_dropped: int = 0


@dataclass(frozen=True)  # without slots: it keeps what it decoded
class Batch:
    """One batch of a topic, decoded when its records are first read.

    Args:
        time: its epoch.
        partition: the number of its partition.
        encoded: its message.
        counter: counts the batches that are decoded.
        expected: the topic's name and the expected schema; None to accept any records.
        number: the number of its message at its publisher.
    """

    time: Time
    partition: int
    encoded: DataMessage = field(repr=False)
    counter: SubscriberStatistics = field(repr=False)
    expected: tuple[str, TopicSchema] | None = field(default=None, repr=False)
    number: int = field(default=0, repr=False)

    @cached_property
    def data(self) -> Any:
        """The published batch: a list, a NumPy array or a ``pyarrow.Table``.

        Raises:
            DeliveryError: this process cannot decode the batch.
            SchemaMismatch: the batch does not have the schema of ``subscribe(..., schema=...)``.
        """
        self.counter.decoded += 1
        batch = decode_batch(self.encoded)
        if self.expected is not None:
            topic, schema = self.expected
            schema.check(topic, self.partition, self.time, batch)
        return batch

    @cached_property
    def records(self) -> list[Any]:
        """The records: rows of Arrow as dicts, elements or rows of NumPy as Python values."""
        return records(self.data)

    @property
    def is_arrow(self) -> bool:
        """True if ``data`` is a ``pyarrow.Table``, without decoding."""
        return self.encoded.encoding == "arrow"

    def __len__(self) -> int:
        """The number of records, without decoding."""
        return self.encoded.records


@dataclass(frozen=True)  # without slots: it keeps what it decoded
class SubstreamsEnded:
    """The end of substreams: no more records follow, unless a key is used again later.

    All records of the substreams have arrived before, from the same partition.

    Args:
        time: its epoch.
        partition: the number of its partition.
        encoded: its message, with the keys.
        number: the number of its message at its publisher.
    """

    time: Time
    partition: int
    encoded: DataMessage = field(repr=False)
    number: int = field(default=0, repr=False)

    @cached_property
    def keys(self) -> tuple[Any, ...]:
        """The keys; DeliveryError if this process cannot decode them."""
        return tuple(decode_batch(self.encoded))


@dataclass(frozen=True, slots=True)
class Frontier:
    """Every later batch has a time at or after an element of ``frontier``."""

    frontier: Antichain


@dataclass(frozen=True, slots=True)
class Dropped:
    """The publisher left out the epochs ``times``, since the subscriber fell behind with ``slow="drop_epochs"``."""

    times: tuple[Time, ...]


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The job has returned to a snapshot: some batches of one partition are void, and will be sent again.

    Void batches belong to incomplete epochs. Complete epochs are not repeated, and `Subscription.epochs` never shows a
    void batch.

    Args:
        partition: the number of the partition.
        number: the number of the last valid message.
        frontier: epochs before it are complete, without void batches.
        at: the number of this message in the log. If the reader of a durable subscription dies before it asks for more,
            the next reader receives this message and later messages again.
    """

    partition: int
    number: int
    frontier: Antichain
    at: int = 0

    def voids(self, batch: Batch | SubstreamsEnded) -> bool:
        """Tell whether this return makes an earlier batch or end void."""
        is_late = batch.partition == self.partition and batch.number > self.number
        return is_late and self.frontier.less_equal(batch.encoded.time)  # a batch of a state may be later


@dataclass(frozen=True, slots=True)
class End:
    """The end of all partitions; no event follows."""


_SHOWN = 10

Event: TypeAlias = Batch | SubstreamsEnded | Frontier | Dropped | RolledBack | End
"""An item of the iteration over a subscription."""


@dataclass(frozen=True)  # without slots: it keeps what it decoded
class Epoch:
    """All batches of one time, by partition and in the order of publication.

    Args:
        time: the epoch.
        batches: at least one, unless there are ends.
        ends: the substreams that have ended with this epoch, if published.
    """

    time: Time
    batches: tuple[Batch, ...]
    ends: tuple[SubstreamsEnded, ...] = ()

    @cached_property
    def records(self) -> list[Any]:
        """All records, decoded when first read; rows of Arrow are dicts."""
        return [record for batch in self.batches for record in batch.records]

    @cached_property
    def ended(self) -> tuple[Any, ...]:
        """The keys of the substreams that end with this epoch.

        Later epochs have no records with these keys, unless a key is reused. A topic with ``ends=True`` sends each end
        once, with one epoch; other topics send no ends. With ``slow="drop_epochs"`` the ends of dropped epochs are
        lost, and `Dropped` names these epochs. With ``where=``, the subscriber receives all ends, even of keys without
        records. A reused key may occur several times. If a batch has the same ``partition`` as a message in ``ends``
        and a greater ``number``, its records belong to the next use of the key; iteration over events shows the order.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("orders")
        >>> _ = flow.input("lines").substreams("orders", key=lambda line: line[0]).publish("live orders", ends=True)
        >>> with tw.run(flow, engine="local") as job, tw.subscribe("live orders") as topic:
        ...     with job.input("lines") as lines:
        ...         lines.send([("a", 1), ("b", 1)])
        ...         lines.end_substream("a")
        ...         lines.advance_to(1)
        ...         lines.send([("b", 2)])
        ...     [(epoch.time, epoch.records, epoch.ended) for epoch in topic.epochs()]
        [(0, [('a', 1), ('b', 1)], ('a',)), (1, [('b', 2)], ('b',))]
        """
        return tuple(key for end in self.ends for key in end.keys)

    def to_arrow(self) -> Any:
        """Return all records as one ``pyarrow.Table``, without a copy; a table without columns if there are no batches.

        Raises:
            DeliveryError: a batch is not Arrow.
        """
        if not all(batch.is_arrow for batch in self.batches):
            raise DeliveryError(f"epoch {self.time!r} has batches that are not Arrow: use records")
        return _joined(self.batches)

    def __repr__(self) -> str:
        """Show at most ten records, and decode at most the first batch."""
        first = self.batches[0].records[:_SHOWN] if self.batches else []
        more = f", and {len(self) - len(first)} more" if len(self) > len(first) else ""
        return f"Epoch(time={self.time!r}, records={first!r}{more})"

    def __len__(self) -> int:
        """The number of records, without decoding."""
        return sum(len(batch) for batch in self.batches)

    def _repr_html_(self) -> str:
        return html_table(f"epoch {self.time!r}", ((None, batch.data) for batch in self.batches), len(self))


def table_of(topic: str, epochs: Iterable[Epoch]) -> Any:
    """Return all records of epochs as one ``pyarrow.Table``, with null for missing values; records are rows or dicts.

    Raises:
        DeliveryError: the records do not form a table.
    """
    import pyarrow as pa

    batches = [batch for epoch in epochs for batch in epoch.batches]
    try:
        if all(batch.is_arrow for batch in batches):
            return _joined(batches)
        records = [record for epoch in epochs for record in epoch.records]
        if all(isinstance(record, dict) for record in records):
            return _of_dicts(records)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise DeliveryError(f"topic {topic!r}: its records do not go into one table: {error}", topic=topic) from error
    other = next(type(record) for record in records if not isinstance(record, dict))
    raise DeliveryError(
        f"topic {topic!r}: a table is made of rows of Arrow and dicts, not of a {other.__qualname__}. Use epochs() and "
        "records, or map the records to dicts before publish",
        topic=topic,
    )


def _of_dicts(records: Sequence[dict[str, Any]]) -> Any:
    import pyarrow as pa

    # Table.from_pylist would use only the columns of the first record.
    names = dict.fromkeys(name for record in records for name in record)
    return pa.table({name: [record.get(name) for record in records] for name in names})


def _joined(batches: Sequence[Batch]) -> Any:
    import pyarrow as pa

    if not batches:
        return pa.table({})
    # Batches of several workers may differ in nullability and in the width of dictionary indices.
    tables = [batch.data for batch in batches]
    has_indices = any(map(pa.types.is_dictionary, tables[0].schema.types))
    return pa.concat_tables(tables, promote_options="permissive" if has_indices else "default")
