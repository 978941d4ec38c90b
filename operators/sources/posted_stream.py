"""Reading Arrow tables from the bodies of postings, which are not trusted.

An Arrow extension type may be a Python class that unpickles its values. Compressed buffers, columns of nulls, and
overlapping buffers become far larger in memory than in the body. So the metadata of all messages is checked before
Arrow reads any of them.
"""

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_EXTENSION = b"ARROW:extension:name"
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = range(4)
"""The fields of a RecordBatch in Arrow's `Message.fbs`."""


def table_of_stream(body: bytes) -> "pa.Table":
    """Return the table of one Arrow IPC stream.

    Raises:
        ValueError: the body is not such a stream, or bytes follow the stream. The stream has extension types,
            compressed buffers, dictionary deltas, or nulls in a column that is not nullable. Or it has more rows, or
            more bytes of columns, than the body has bytes.
    """
    import pyarrow as pa

    try:
        _check(body)
        with pa.ipc.open_stream(body) as reader:
            table = reader.read_all()
        table.validate(full=True)
        for field, column in zip(table.schema, table.columns, strict=True):
            if column.null_count and not field.nullable:
                raise ValueError(f"column {field.name!r} has nulls, and its type has none")
    except (pa.ArrowException, OSError, struct.error) as error:
        raise ValueError(f"it is no stream of Arrow IPC: {error}") from None
    return table


def _check(body: bytes) -> None:
    import pyarrow as pa

    rows = size = 0
    source = pa.BufferReader(body)
    for message in pa.ipc.MessageReader.open_stream(source):
        metadata = message.metadata.to_pybytes()
        if message.type == "schema":
            if _EXTENSION in metadata:
                raise ValueError("a column has an extension type of Arrow, which may run code: send its storage type")
            continue
        header = _Table.root(metadata).table(2)
        if message.type == "dictionary":
            if header.has(2):
                raise ValueError("the stream has deltas of dictionaries: write it with emit_dictionary_deltas=False")
            header = header.table(1)
        if header.has(_COMPRESSION):
            raise ValueError("the stream has compressed buffers: write it with compression=None")
        rows += max([header.int64(_LENGTH), *(length for length, _ in header.pairs(_NODES))])
        size += sum(abs(length) for _, length in header.pairs(_BUFFERS))
        if max(rows, size) > len(body):
            raise ValueError(
                f"the stream has {len(body):,} bytes, and would have {rows:,} rows and {size:,} bytes in memory: send "
                "at most one row, or value of a list, for each byte"
            )
    if source.tell() != len(body):
        raise ValueError("bytes follow the end of the stream of Arrow: send one stream in each body")


class _Table:
    """A table of a flatbuffer, which Arrow has verified."""

    def __init__(self, metadata: bytes, at: int) -> None:
        self._metadata = metadata
        self._at = at
        self._slots = at - struct.unpack_from("<i", metadata, at)[0]

    @classmethod
    def root(cls, metadata: bytes) -> "_Table":
        return cls(metadata, struct.unpack_from("<I", metadata)[0])

    def has(self, field: int) -> bool:
        return self._place(field) is not None

    def int64(self, field: int) -> int:
        place = self._place(field)
        found: int = 0 if place is None else struct.unpack_from("<q", self._metadata, place)[0]
        return found

    def table(self, field: int) -> "_Table":
        return _Table(self._metadata, self._target(field))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """Yield the items of a vector, each a pair of numbers."""
        if not self.has(field):
            return iter(())
        start = self._target(field)
        [count] = struct.unpack_from("<I", self._metadata, start)
        return struct.iter_unpack("<qq", self._metadata[start + 4 : start + 4 + 16 * count])

    def _target(self, field: int) -> int:
        place = self._place(field)
        if place is None:
            raise ValueError("it is no stream of Arrow IPC: a message has no header")
        return int(place + struct.unpack_from("<I", self._metadata, place)[0])

    def _place(self, field: int) -> int | None:
        [size] = struct.unpack_from("<H", self._metadata, self._slots)
        slot = 4 + 2 * field
        if slot >= size:
            return None
        [offset] = struct.unpack_from("<H", self._metadata, self._slots + slot)
        return self._at + offset if offset else None
