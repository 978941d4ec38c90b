"""An entry of a stream."""

from typing import Any

import msgspec


class RedisRecord(msgspec.Struct, frozen=True):
    """An entry that a `RedisSource` has read, or that a `RedisSink` writes.

    Attributes:
        fields: the fields. A source reads a dict of bytes, or what it has converted that to. A sink writes a dict, a
            `msgspec.Struct` or a dataclass whose values are texts, bytes, numbers, booleans or None.
        id: its id, such as ``1795947578626-0``; a sink ignores it.
        stream: the key of its stream; a sink ignores it.

    >>> RedisRecord({"town": "Brest"}, "1795947578626-0").timestamp_ms
    1795947578626
    """

    fields: Any
    id: str | None = None
    stream: str | None = None

    @property
    def timestamp_ms(self) -> int | None:
        """The first part of its id: when the server stored it, in milliseconds since 1970, unless it has other ids."""
        return None if self.id is None else int(self.id.partition("-")[0])
