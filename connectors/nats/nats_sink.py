"""The sink that writes each epoch to a stream of NATS JetStream.

Each message has its epoch and its number there as headers, and names the message that has to be the last in the stream
before it. So a message is stored once, whoever sends it again, and the last one says how far the stream is. The server
knows no transactions: after a crash the last epoch may be there in part, and the next commit completes it.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec

from tidewheel.batches import batches
from tidewheel.batches.batches import Batch
from tidewheel.connectors.base.attempts import attempted
from tidewheel.connectors.nats.errors import NatsError
from tidewheel.connectors.nats.nats_connection import NatsConnection
from tidewheel.connectors.nats.nats_publisher import publish
from tidewheel.connectors.nats.nats_record import NatsRecord
from tidewheel.connectors.nats.nats_servers import NatsServers
from tidewheel.host.retry import Retry
from tidewheel.operators.sinks.sink import Sink
from tidewheel.progress import GraphError, Time

T = TypeVar("T")

_Message = tuple[str, bytes, tuple[tuple[str, str], ...]]
"""Subject, data and headers."""

_EPOCH: Final = "Tidewheel-Epoch"
_NUMBER: Final = "Tidewheel-Number"
_RESERVED: Final = ("tidewheel-", "nats-")
_HEADER: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NO_TEXT: Final = re.compile("[\r\n\ud800-\udfff]")
_SUBJECT: Final = re.compile(r"(?!\$(JS|SYS)\.)[^\s.*>]+(\.[^\s.*>]+)*")


class NatsSink(Sink):
    """A stream of NATS JetStream as a sink, for `Stream.sink`; needs the extra ``nats``.

    The records of the stream are `NatsRecord`. Worker 0 writes each epoch, message by message, and no message twice,
    also across crashes. The header ``Tidewheel-Epoch`` of a message is its epoch; ``Tidewheel-Number``, such as
    ``3/12``, is its number and that of all messages of the epoch. The sink has to be the only writer of its stream.

    Args:
        servers: the address of a server, or several with commas between them.
        subject: the subject of records that have none of their own; the sink writes to the stream that stores it.
        config: further settings of ``nats.connect``, such as ``user``. A password is a `tidewheel.Secret`; ``tls`` may
            be a function that returns an `ssl.SSLContext`.

    Raises:
        GraphError: an argument is wrong, for example a password that is not a `Secret`.
        NatsError: the extra is not installed.
    """

    retry = Retry(within_s=300.0, first_pause_s=0.1, longest_pause_s=10.0, jitter=0.5, on=ConnectionError)

    def __init__(self, servers: str, subject: str, *, config: Mapping[str, Any] | None = None) -> None:
        self._servers = NatsServers("NatsSink", servers, config or {})
        if not _is_subject(subject):
            raise GraphError(f"NatsSink: subject is a name without spaces and wildcards, not {subject!r}")
        self._subject = subject

    def __repr__(self) -> str:
        return f"NatsSink({self._subject!r})"

    def prepare(self, epoch: Time, records: Batch) -> list[_Message]:
        """Encode records; the result travels to worker 0."""
        return [self._encoded(record, epoch) for record in batches.records(records)]

    def refused(self, records: Batch) -> dict[int, Exception]:
        """Return the records that are no `NatsRecord`, no JSON, or have headers that a message cannot have."""
        found: dict[int, Exception] = {}
        for place, record in enumerate(batches.records(records)):
            try:
                self._encoded(record)
            except NatsError as error:
                found[place] = error
        return found

    def commit(self, epoch: Time, parts: list[list[_Message]]) -> None:
        """Write the messages of an epoch that the stream does not have."""
        if type(epoch) is not int or epoch < 0:
            raise NatsError(f"{self!r}: epoch {epoch!r} is no integer from 0 on, which a header could note")
        messages = list(chain.from_iterable(parts))

        def store(connection: NatsConnection) -> None:
            stream, end, last = self._last(connection)
            missing, written = messages, 0
            if last is not None and last[0] >= epoch:
                if last[0] > epoch or last[1] == last[2]:
                    return
                written = last[1]
                missing = self._missing(connection, stream, end, epoch, messages, last)
            publish(
                connection,
                stream,
                end,
                [
                    (subject, data, {**dict(headers), _EPOCH: str(epoch), _NUMBER: f"{number}/{len(messages)}"})
                    for number, (subject, data, headers) in enumerate(missing, written + 1)
                ],
            )

        self._attempted(store)

    def last_committed(self) -> int | None:
        """Return the last epoch that the stream has completely, as far as its last message says."""
        _, _, last = self._attempted(self._last)
        if last is None:
            return None
        whole = last[0] if last[1] == last[2] else last[0] - 1
        return None if whole < 0 else whole

    def _attempted(self, act: Callable[[NatsConnection], T]) -> T:
        def connected() -> T:
            with closing(NatsConnection(self._servers)) as connection:
                return act(connection)

        return attempted(connected, self.retry, self, NatsError)

    def _last(self, connection: NatsConnection) -> tuple[str, int, tuple[int, int, int] | None]:
        """Return the stream, its end, and the last message's epoch, number, and number of messages of the epoch."""
        stream = connection.stream_of(self._subject)
        state = connection.state(stream)
        if not state.messages:
            return stream, state.last, None
        headers = dict(connection.message(stream, None).headers)
        try:
            number, _, count = headers[_NUMBER].partition("/")
            return stream, state.last, (int(headers[_EPOCH]), int(number), int(count))
        except (KeyError, ValueError):
            raise NatsError(
                f"{self!r}: the last message of stream {stream!r} is of another writer, so the sink cannot know its "
                "last epoch. Give the sink a stream of its own"
            ) from None

    def _missing(
        self,
        connection: NatsConnection,
        stream: str,
        end: int,
        epoch: int,
        messages: list[_Message],
        last: tuple[int, int, int],
    ) -> list[_Message]:
        """Return the messages of an epoch that a stream does not have."""
        found: Counter[_Message] = Counter()
        for sequence in range(end - last[1] + 1, end + 1):
            one = connection.message(stream, sequence)
            own = tuple(header for header in one.headers if not header[0].lower().startswith(_RESERVED))
            found[one.subject, one.data, own] += 1
        missing = []
        for message in messages:
            if found[message]:
                found[message] -= 1
            else:
                missing.append(message)
        if found.total() or last[2] != len(messages):
            raise NatsError(
                f"{self!r}: stream {stream!r} has {last[1]} of {last[2]} messages of epoch {epoch}, and the job has "
                "computed others after a crash. Without snapshots, or with visible='epoch', it has to compute the same"
            )
        return missing

    def _encoded(self, record: Any, epoch: Time = None) -> _Message:
        of = "" if epoch is None else f" of epoch {epoch!r}"
        if not isinstance(record, NatsRecord):
            raise NatsError(
                f"{self!r}: a record{of} is no NatsRecord, but {record!r:.200}. Make one of it before, as by "
                "map(lambda order: NatsRecord(order, f'orders.{order.customer}'))"
            )
        if record.subject and not _is_subject(record.subject):
            raise NatsError(f"{self!r}: a record{of} cannot have the subject {record.subject!r:.200}")
        if not _are_allowed(record.headers):
            raise NatsError(f"{self!r}: a record{of} cannot have the headers {record.headers!r:.200}")
        try:
            data = record.value if isinstance(record.value, bytes) else msgspec.json.encode(record.value)
        except (TypeError, ValueError, RecursionError) as error:
            raise NatsError(f"{self!r}: a record{of} is no JSON: {error}. It is {record!r:.200}") from error
        return record.subject or self._subject, data, tuple((name, text) for name, text in record.headers)


def _are_allowed(headers: Any) -> bool:
    """Tell whether a record may have headers: they come back as they are, and mean nothing to server and sink."""
    if not isinstance(headers, tuple | list):
        return False
    names = {one[0] for one in headers if isinstance(one, tuple | list) and len(one) == 2 and _is_allowed(*one)}
    return len(names) == len(headers)


def _is_allowed(name: Any, text: Any) -> bool:
    if not isinstance(name, str) or not isinstance(text, str) or name.lower().startswith(_RESERVED):
        return False
    return _HEADER.fullmatch(name) is not None and _NO_TEXT.search(text) is None and text == text.strip()


def _is_subject(subject: Any) -> bool:
    """Tell whether a message may have a subject, which may come from data: the server's own API has no messages."""
    return isinstance(subject, str) and subject.isprintable() and _SUBJECT.fullmatch(subject) is not None
