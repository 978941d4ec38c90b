"""The events of a subscription: batches, moves of the frontier, and the end."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from tidewheel.progress import Antichain, Time
from tidewheel.pubsub.catalog.topic_schema import TopicSchema
from tidewheel.pubsub.messages.payload import EncodedBatch, decode, to_records


class DecodeCounter:
    """Counts how many payloads were decoded on behalf of one subscriber."""

    __slots__ = ("decoded",)

    def __init__(self) -> None:
        self.decoded = 0


@dataclass(frozen=True)  # without slots: it keeps what it decoded
class Batch:
    """One batch of a topic, still encoded; it is decoded the first time that somebody asks for what is in it.

    Args:
        time: its epoch.
        partition: the number of the partition that it came from.
        encoded: its bytes.
        counter: counts the decoding.
        expected: what its subscriber expects of it, with the name of the topic; None for nothing.
        number: of its message at its publisher.
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
            DeliveryError: it does not decode in this process.
            SchemaMismatch: it is not what ``subscribe(..., schema=...)`` has said.
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
    """Nothing more comes of some substreams, each for as long as its key is not used again, at a later time.

    All records of them have come before, from the same partition, at this time or before it.

    Args:
        time: its epoch.
        partition: the number of the partition that it came from.
        encoded: the keys, as bytes.
        number: of its message at its publisher.
    """

    time: Time
    partition: int
    encoded: EncodedBatch = field(repr=False)
    number: int = field(default=0, repr=False)

    @cached_property
    def keys(self) -> tuple[Any, ...]:
        """The keys; raises DeliveryError if they do not decode in this process."""
        return tuple(decode(self.encoded))


@dataclass(frozen=True, slots=True)
class Frontier:
    """No batch will come at a time that is not at or after some element of ``frontier``."""

    frontier: Antichain


@dataclass(frozen=True, slots=True)
class Dropped:
    """Nothing comes of the epochs ``times``, since this subscriber fell behind and asked for ``slow="drop_epochs"``."""

    times: tuple[Time, ...]


@dataclass(frozen=True, slots=True)
class End:
    """Every partition has ended: nothing comes after this."""


Event: TypeAlias = Batch | SubstreamsEnded | Frontier | Dropped | End
"""What iterating over a subscription gives."""
