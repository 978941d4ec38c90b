"""A message of a stream."""

from typing import Any

import msgspec


class NatsRecord(msgspec.Struct, frozen=True):
    """A message that a `NatsSource` has read, or that a `NatsSink` writes.

    Attributes:
        value: bytes, or what the source has decoded from JSON. A sink writes bytes as they are, and others as JSON.
        subject: its subject. For None, a sink writes its own subject.
        headers: pairs of a name and a text. If a message has a name more than once, a source reads one of its texts.
        timestamp_ms: when the server stored it, in milliseconds since 1970; a sink ignores it.
        sequence: its number in the stream; a sink ignores it.

    >>> NatsRecord({"town": "Brest"}, "tides.FR").value["town"]
    'Brest'
    """

    value: Any
    subject: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    timestamp_ms: int | None = None
    sequence: int | None = None
