"""The events of a subscription: batches, moves of the frontier, and the end."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from tidewheel.progress import Antichain, Time
from tidewheel.pubsub.catalog.topic_schema import TopicSchema
from tidewheel.pubsub.messages.payload import EncodedBatch, decode, to_records


class DecodeCounter:
    """Counts the payloads that were decoded for one subscriber."""

    __slots__ = ("decoded",)

    def __init__(self) -> None:
        self.decoded = 0


@dataclass(frozen=True)  # without slots: it keeps what it decoded
class Batch:
    """One batch of a topic, decoded at the first access to its records.

    Args:
        time: its epoch.
        partition: the number of its partition.
        encoded: its bytes.
        counter: counts the decoding.
        expected: the name of the topic and the schema that the subscriber expects; None for any records.
        number: the number of its message at its publisher.
    """

    time: Time
    partition: int
    encoded: EncodedBatch = field(repr=False)
    counter: DecodeCounter = field(repr=False)
    expected: tuple[str, TopicSchema] | None = field(default=None, repr=False)
    number: int = field(default=0, repr=False)

    @cached_property
    def data(self) -> Any:
        """The batch as it was published: a list, a NumPy array or a ``pyarrow.Table``.

        Raises:
            DeliveryError: this process cannot decode it.
            SchemaMismatch: it does not have the schema of ``subscribe(..., schema=...)``.
        """
        self.counter.decoded += 1
        batch = decode(self.encoded)
        if self.expected is not None:
            topic, schema = self.expected
            schema.check(topic, self.partition, self.time, batch)
        return batch

    @cached_property
    def records(self) -> list[Any]:
        """The records: rows of Arrow as dicts, elements or rows of NumPy as Python values."""
        return to_records(self.data)

    @property
    def is_arrow(self) -> bool:
        """Whether ``data`` is a ``pyarrow.Table``; known without decoding."""
        return self.encoded.encoding == "arrow"

    def __len__(self) -> int:
        """The number of records; known without decoding."""
        return self.encoded.records


@dataclass(frozen=True)  # without slots: it keeps what it decoded
class SubstreamsEnded:
    """The end of some substreams: no record of them follows, unless a key is used again at a later time.

    All their records came before, from the same partition, at this time or an earlier one.

    Args:
        time: its epoch.
        partition: the number of its partition.
        encoded: the keys, as bytes.
        number: the number of its message at its publisher.
    """

    time: Time
    partition: int
    encoded: EncodedBatch = field(repr=False)
    number: int = field(default=0, repr=False)

    @cached_property
    def keys(self) -> tuple[Any, ...]:
        """The keys; raises DeliveryError if this process cannot decode them."""
        return tuple(decode(self.encoded))


@dataclass(frozen=True, slots=True)
class Frontier:
    """Every later batch has a time at or after some element of ``frontier``."""

    frontier: Antichain


@dataclass(frozen=True, slots=True)
class Dropped:
    """The publisher left out the epochs ``times``: the subscriber fell behind, with ``slow="drop_epochs"``."""

    times: tuple[Time, ...]


@dataclass(frozen=True, slots=True)
class End:
    """The end of all partitions; no event follows."""


Event: TypeAlias = Batch | SubstreamsEnded | Frontier | Dropped | End
"""An item of the iteration over a subscription."""
