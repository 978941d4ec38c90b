"""A record of a topic."""

from typing import Any

import msgspec


class KafkaRecord(msgspec.Struct, frozen=True):
    """A record that a `KafkaSource` has read, or that a `KafkaSink` writes.

    Attributes:
        value: the value, in the format of the source or sink. None is a tombstone, which deletes its key in a compacted
            topic.
        key: the key, in its format; None without a key. Records with the same key are in one partition, in order.
        headers: pairs of a name and bytes.
        timestamp_ms: the event time, in milliseconds since 1970. A sink replaces None by the time at which it sends.
        topic: the topic from which it was read; a sink ignores it.
        partition: its partition in that topic.
        offset: its offset in that partition.

    >>> KafkaRecord({"town": "Brest"}, key=b"FR").value["town"]
    'Brest'
    """

    value: Any
    key: Any = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
