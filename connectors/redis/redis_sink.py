"""The sink that writes each epoch to a stream of Redis, in one transaction.

The ids of the entries of epoch 7 are 7-1, 7-2 and so on. A stream never forgets its last id, not even when it is
trimmed, so it knows the last epoch by itself.
"""

from collections.abc import Mapping
from itertools import chain
from math import isfinite
from typing import Any

import msgspec

from tidewheel.batches import batches
from tidewheel.batches.batches import Batch
from tidewheel.connectors.base.attempts import attempted
from tidewheel.connectors.redis.errors import RedisError
from tidewheel.connectors.redis.redis_record import RedisRecord
from tidewheel.connectors.redis.redis_server import RedisServer, id_of, stream_info
from tidewheel.host.retry import Retry
from tidewheel.operators.sinks.sink import Sink
from tidewheel.progress import GraphError, Time

_Fields = dict[bytes, bytes]


class RedisSink(Sink):
    """A stream of Redis as a sink, for `Stream.sink`; needs the extra ``redis``.

    The records of the stream are `RedisRecord`. Worker 0 adds each epoch in one transaction, so readers see it once and
    completely. The entries of epoch 7 have the ids 7-1, 7-2 and so on. The sink has to be the only writer of its
    stream, and creates it.

    Args:
        url: the address of a server: ``redis://host:6379/0``, ``rediss://host`` for TLS, or ``unix:///path``.
        stream: the key of the stream.
        config: further settings of ``redis.Redis``, such as ``username``. A password is a `tidewheel.Secret`.

    Raises:
        GraphError: an argument is wrong, for example a password that is not a `Secret`.
        RedisError: the extra is not installed.
    """

    retry = Retry(within_s=300.0, first_pause_s=0.1, longest_pause_s=10.0, jitter=0.5, on=ConnectionError)

    def __init__(self, url: str, stream: str, *, config: Mapping[str, Any] | None = None) -> None:
        self._server = RedisServer("RedisSink", url, config or {})
        if not isinstance(stream, str) or not stream:
            raise GraphError(f"RedisSink: stream is the key of a stream, not {stream!r}")
        self._stream = stream

    def __repr__(self) -> str:
        return f"RedisSink({self._stream!r})"

    def prepare(self, epoch: Time, records: Batch) -> list[_Fields]:
        """Encode records; the result travels to worker 0."""
        return [self._encoded(record, epoch) for record in batches.records(records)]

    def refused(self, records: Batch) -> dict[int, Exception]:
        """Return the records that are no `RedisRecord`, or whose fields no entry can have."""
        found: dict[int, Exception] = {}
        for place, record in enumerate(batches.records(records)):
            try:
                self._encoded(record)
            except RedisError as error:
                found[place] = error
        return found

    def commit(self, epoch: Time, parts: list[list[_Fields]]) -> None:
        """Add the entries of an epoch, unless the stream has it or a later one."""
        if type(epoch) is not int or epoch < 0:
            raise RedisError(f"{self!r}: epoch {epoch!r} is no integer from 0 on, which an id could have")

        def store() -> None:
            with (
                self._server.connected(f"epoch {epoch} is not written to stream {self._stream!r}") as client,
                client.pipeline(transaction=True) as pipe,
            ):
                pipe.watch(self._stream)
                last = self._last(pipe)
                if last is not None and last >= epoch:
                    return
                pipe.multi()
                for number, fields in enumerate(chain.from_iterable(parts), 1):
                    pipe.xadd(self._stream, fields, f"{epoch}-{number}")
                pipe.execute()  # unless the stream has changed meanwhile

        attempted(store, self.retry, self, RedisError)

    def last_committed(self) -> int | None:
        """Return the epoch in the last id of the stream."""

        def look() -> int | None:
            with self._server.connected(f"stream {self._stream!r} is not read") as client:
                return self._last(client)

        return attempted(look, self.retry, self, RedisError)

    def _last(self, client: Any) -> int | None:
        info = stream_info(client, self._stream)
        epoch, number = (0, 0) if info is None else id_of(info["last-generated-id"])
        if (epoch, number) == (0, 0):
            return None
        if not number or client.xrange(self._stream, f"{epoch}-0", f"{epoch}-0"):
            raise RedisError(
                f"{self!r}: the stream has ids of another writer, such as {epoch}-0, and would refuse those of epochs. "
                "Give the sink a stream of its own"
            )
        return epoch

    def _encoded(self, record: Any, epoch: Time = None) -> _Fields:
        of = "" if epoch is None else f" of epoch {epoch!r}"
        if not isinstance(record, RedisRecord):
            raise RedisError(
                f"{self!r}: a record{of} is no RedisRecord, but {record!r:.200}. Make one of it before, as by "
                "map(RedisRecord)"
            )
        found, reason = record.fields, "its fields are no dict, Struct or dataclass, or there are none"
        try:
            fields = found if isinstance(found, dict) else msgspec.to_builtins(found, builtin_types=(bytes,))
            if isinstance(fields, dict) and fields:
                return {_text(name): _text(value) for name, value in fields.items()}
        except (TypeError, ValueError, RecursionError) as error:
            reason = str(error)
        raise RedisError(f"{self!r}: a record{of} is no entry: {reason}. It is {record!r:.200}")


def _text(value: Any) -> bytes:
    """Return a name or value as bytes, so that `RedisSource` can convert it back."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float) and not isfinite(value):
        return str(value).encode()  # JSON would make null of it
    if value is None or isinstance(value, bool | int | float):
        return msgspec.json.encode(value)
    raise TypeError(f"{value!r:.100} is no text, bytes, number, boolean or None")
