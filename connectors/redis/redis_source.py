"""The source that reads streams of Redis by the ids of their entries.

Each read begins at the last entry that was read before, and shows that entry again. If it does, nothing behind it was
trimmed, since trimming deletes the oldest entries first. If the entry is gone, the number of all entries that were ever
deleted shows whether others are lost, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from tidewheel.connectors.redis.errors import RedisError
from tidewheel.connectors.redis.redis_record import RedisRecord
from tidewheel.connectors.redis.redis_server import RedisServer, id_of, stream_info
from tidewheel.host.retry import Retry
from tidewheel.operators.sources.contract import Fetched, Partition, Pause, Refused, Source, Unit
from tidewheel.progress import GraphError

_WAIT_MS: Final = 200
_FIRST_ENTRIES: Final = 100
_MOST_ENTRIES: Final = 1000
_MOST_BYTES: Final = 4 << 20


class RedisSource(Source[RedisRecord]):
    """A source of the entries of streams, for `Dataflow.source`; needs the extra ``redis``.

    Each stream is a partition. The snapshots of the job have the position, an id, so the source joins no consumer
    group. If a stream does not have the entries behind the position any more, the job fails.

    Args:
        url: the address of a server: ``redis://host:6379/0``, ``rediss://host`` for TLS, or ``unix:///path``.
        streams: the key of a stream, or several.
        fields_type: the type to which the texts of an entry's fields are converted, such as a `msgspec.Struct`, a
            dataclass or a `TypedDict`; by default fields are a dict of bytes.
        bounded: whether each partition ends: at the entry that is the last when the partition is first opened.
        config: further settings of ``redis.Redis``, such as ``username``. A password is a `tidewheel.Secret`.

    Raises:
        GraphError: an argument is wrong, for example a password that is not a `Secret`.
        RedisError: the extra is not installed.
    """

    retry = Retry(within_s=300.0, first_pause_s=0.5, longest_pause_s=10.0, jitter=0.5, on=ConnectionError)

    def __init__(
        self,
        url: str,
        streams: str | Sequence[str],
        *,
        fields_type: Any = None,
        bounded: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._server = RedisServer("RedisSource", url, config or {})
        self._streams = [streams] if isinstance(streams, str) else list(streams)
        if not self._streams or not all(isinstance(stream, str) and stream for stream in self._streams):
            raise GraphError(f"RedisSource: streams has keys of streams, not {streams!r}")
        self._fields_type = fields_type
        self._bounded = bounded
        self.endless = not bounded

    def partitions(self) -> list[Partition]:
        """Return the keys of the streams."""
        return [*self._streams]

    def open(
        self, partition: Partition, position: tuple[bytes, int | None, bytes | None] | None
    ) -> Iterator[Fetched[RedisRecord] | Pause]:
        """Read a stream.

        A position is the id of the last entry, how many entries were ever added up to it, and the id where a bounded
        read ends.
        """
        stream, count = str(partition), _FIRST_ENTRIES
        last, added, end = position or (None, None, None)
        end = end if self._bounded else None
        with self._server.connected(f"stream {stream!r} is not read") as client:
            while end is None or last is None or id_of(last) < id_of(end):
                found, info = _look(client, stream, last, end, count)
                if self._bounded and end is None:
                    end = info["last-generated-id"]
                    found = [entry for entry in found if id_of(entry[0]) <= id_of(end)]
                deleted = None if "entries-added" not in info else info["entries-added"] - info["length"]
                if last is None:
                    added = deleted
                elif found and found[0][0] == last:
                    del found[0]
                else:
                    are_gone = info["first-entry"] is None or id_of(info["first-entry"][0]) > id_of(last)
                    self._check_kept(stream, last, info, is_whole=deleted is not None and deleted == added and are_gone)
                if found:
                    last = found[-1][0]
                    added = info.get("entries-added") if last == info["last-generated-id"] else _sum(added, len(found))
                    records, refused = self._records(stream, found)
                    yield Fetched(records, (last, added, end), refused=refused)
                    size = sum(len(value) for _, fields in found for value in fields.values())
                    count = max(1, min(_MOST_ENTRIES, _MOST_BYTES * len(found) // max(size, 1)))
                elif end is not None:
                    return
                else:
                    client.xread({stream: last or b"0-0"}, count=1, block=_WAIT_MS)
                    yield Pause(0)

    def behind(
        self, partition: Partition, position: tuple[bytes, int | None, bytes | None] | None
    ) -> Mapping[Unit, float] | None:
        """Return how many entries were added behind a position; None in a bounded read, and before Redis 7."""
        with self._server.connected(f"stream {partition!r} is not read") as client:
            info = stream_info(client, str(partition))
        if info is None:
            return None
        if position is None:
            return {"records": info["length"]}
        _, added, end = position
        if added is None or end is not None or "entries-added" not in info:
            return None
        return {"records": max(0, info["entries-added"] - added)}

    def _check_kept(self, stream: str, last: bytes, info: Mapping[str, Any], *, is_whole: bool) -> None:
        """Raise RedisError if a stream, which does not have the last entry any more, has lost others behind it."""
        newest = info["last-generated-id"]
        if id_of(newest) < id_of(last):
            raise RedisError(
                f"stream {stream!r} was made anew, or is an older copy: its last id is {newest.decode()}, and the job "
                f"has read up to {last.decode()}. Start the job with another folder of snapshots"
            )
        if newest != last and not is_whole:
            raise RedisError(
                f"stream {stream!r} does not have entry {last.decode()} any more, up to which the job has read, and "
                "may have lost later ones: XTRIM, XDEL or a MAXLEN has deleted them. Trim it later; to go on with what "
                "there is, start the job with another folder of snapshots"
            )

    def _records(self, stream: str, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> tuple[list[Any], list[Refused]]:
        """Return entries as records, and those whose fields cannot be converted."""
        if self._fields_type is None:
            return [RedisRecord(fields, name.decode(), stream) for name, fields in entries], []
        records, refused = [], []
        for name, fields in entries:
            entry = name.decode()
            try:
                texts = {field.decode(): value.decode() for field, value in fields.items()}
                records.append(RedisRecord(msgspec.convert(texts, self._fields_type, strict=False), entry, stream))
            except (msgspec.ValidationError, UnicodeDecodeError) as reason:
                error = RedisError(
                    f"entry {entry} of stream {stream!r} does not fit fields_type: {reason}. Correct that, or go on "
                    "without such entries: flow.source(..., dead_letters=flow.dead_letters())"
                )
                refused.append(Refused(RedisRecord(fields, entry, stream), error, f"entry {entry}"))
        return records, refused


def _look(
    client: Any, stream: str, last: bytes | None, end: bytes | None, count: int
) -> tuple[list[tuple[bytes, dict[bytes, bytes]]], Mapping[str, Any]]:
    """Return the entries from ``last`` on, and what XINFO STREAM says at the same moment."""
    from redis import ResponseError

    with client.pipeline(transaction=True) as both:
        both.xrange(stream, last or b"-", end or b"+", count + 1)
        both.xinfo_stream(stream)
        try:
            found, info = both.execute()
        except ResponseError as error:
            if "no such key" not in str(error):
                raise
            raise RedisError(
                f"there is no stream {stream!r}. Correct its key, or create it: XGROUP CREATE {stream} any $ MKSTREAM"
            ) from None
    return list(found), info


def _sum(number: int | None, more: int) -> int | None:
    return None if number is None else number + more
