"""The source that reads a stream of NATS JetStream by its sequence."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import msgspec

from tidewheel.connectors.nats.errors import NatsError
from tidewheel.connectors.nats.nats_connection import NatsConnection, StreamState
from tidewheel.connectors.nats.nats_consumer import NatsConsumer
from tidewheel.connectors.nats.nats_record import NatsRecord
from tidewheel.connectors.nats.nats_servers import NatsServers
from tidewheel.host.retry import Retry
from tidewheel.operators.sources.contract import Fetched, Partition, Pause, Refused, Source, Unit
from tidewheel.progress import GraphError

_WAIT_S: Final = 0.2
_MOVES_EVERY_S: Final = 1.0


class NatsSource(Source[NatsRecord]):
    """A source of the messages of a stream, for `Dataflow.source`; needs the extra ``nats``.

    The snapshots of the job have the position, a sequence of the stream, so the source acknowledges nothing. The stream
    needs retention by limits, the default. If it does not have the messages behind the position any more, or was made
    anew, the job fails.

    Args:
        servers: the address of a server, or several with commas between them.
        stream: the name of the stream.
        subjects: subjects that are read, also with wildcards; each is a partition, and none may include another. By
            default the stream is one partition with all its subjects.
        value_type: the type to which messages are decoded from JSON and against which they are checked: a
            `msgspec.Struct`, a dataclass, or a type such as ``dict[str, int]``; by default values are bytes.
        bounded: whether each partition ends: at the message that is the last when the partition is first opened.
        config: further settings of ``nats.connect``, such as ``user``. A password is a `tidewheel.Secret`; ``tls`` may
            be a function that returns an `ssl.SSLContext`.

    Raises:
        GraphError: an argument is wrong, for example a password that is not a `Secret`.
        NatsError: the extra is not installed.
    """

    retry = Retry(within_s=300.0, first_pause_s=0.5, longest_pause_s=10.0, jitter=0.5, on=ConnectionError)

    def __init__(
        self,
        servers: str,
        stream: str,
        *,
        subjects: str | Sequence[str] | None = None,
        value_type: Any = None,
        bounded: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._servers = NatsServers("NatsSource", servers, config or {})
        if not isinstance(stream, str) or not stream or set(stream) & set(" .*>/\\\t\r\n"):
            raise GraphError(f"NatsSource: stream is a name without spaces, dots and wildcards, not {stream!r}")
        self._stream = stream
        self._subjects = [subjects] if isinstance(subjects, str) else None if subjects is None else list(subjects)
        if self._subjects is not None and not (self._subjects and all(isinstance(one, str) for one in self._subjects)):
            raise GraphError(f"NatsSource: subjects has subjects such as 'tides.>', not {subjects!r}")
        self._value_type = value_type
        self._bounded = bounded
        self.endless = not bounded

    def partitions(self) -> list[Partition]:
        """Return the subjects, or the name of the stream."""
        return [self._stream] if self._subjects is None else [*self._subjects]

    def open(
        self, partition: Partition, position: tuple[int, int | None, str] | None
    ) -> Iterator[Fetched[NatsRecord] | Pause]:
        """Read a partition.

        A position is the sequence of the last message, that of the last one of a bounded read, and when the stream was
        made.
        """
        with closing(NatsConnection(self._servers)) as connection:
            state, looked_s = connection.state(self._stream), time.monotonic()
            last, end, made = position or (max(state.first - 1, 0), None, state.created)
            end = (state.last if end is None else end) if self._bounded else None
            self._check(state, last, made)
            subject = None if self._subjects is None else str(partition)
            reading = _Reading(self._stream, last, self._value_type)
            with closing(NatsConsumer(connection, self._stream, last + 1, subject)) as consumer:
                while end is None or reading.last < end:
                    before = reading.last
                    messages, is_last = consumer.take(_WAIT_S if end is None else 0)
                    records, refused = reading.records(messages, end)
                    if is_last:  # what the stream had then was read, is of other subjects, or was deleted
                        reading.skip_to(state.last if end is None else min(state.last, end))
                    if reading.gap is not None:
                        now = connection.state(self._stream)
                        if position is None and now.first > reading.gap:
                            raise ConnectionError(
                                f"the first messages of {partition!r} are deleted before they are read"
                            )
                        self._check(now, reading.gap - 1, made)
                    if reading.last == before:
                        yield Pause(0)
                    else:
                        position = reading.last, end, made
                        yield Fetched(records, position, refused=refused)
                    if is_last and time.monotonic() - looked_s > _MOVES_EVERY_S:
                        state, looked_s = connection.state(self._stream), time.monotonic()

    def behind(self, partition: Partition, position: tuple[int, int | None, str] | None) -> Mapping[Unit, float]:
        """Return how many sequences there are up to the end of the stream, or up to that of a bounded read.

        Messages of other subjects, and those that were deleted, have sequences too.
        """
        with closing(NatsConnection(self._servers)) as connection:
            state = connection.state(self._stream)
        last, end, _ = position or (max(state.first - 1, 0), None, state.created)
        return {"records": max(0, (state.last if end is None else end) - last)}

    def _check(self, state: StreamState, sequence: int, made: str) -> None:
        """Raise NatsError if a stream does not have what is behind a sequence any more."""
        if state.created != made or state.last < sequence:
            raise NatsError(
                f"stream {self._stream!r} was made anew, or is an older copy, since the job has read it up to message "
                f"{sequence}: that position means nothing there. Start the job with another folder of snapshots"
            )
        if state.first > sequence + 1:
            raise NatsError(
                f"stream {self._stream!r} begins at message {state.first}, and the job has read up to {sequence}: a "
                "limit or a purge has deleted messages that it has not read. Let the stream keep messages for longer; "
                "to go on with what there is, start the job with another folder of snapshots"
            )


class _Reading:
    """How far a partition is read, and what its messages are as records.

    Attributes:
        last: the sequence up to which the partition is read.
        gap: the first sequence that the latest messages leave out; None if they follow each other.
    """

    def __init__(self, stream: str, last: int, value_type: Any) -> None:
        self._stream = stream
        self._decode = None if value_type is None else msgspec.json.Decoder(value_type).decode
        self._delivered = 0
        self.last = last
        self.gap: int | None = None

    def records(self, messages: list[Any], end: int | None) -> tuple[list[NatsRecord], list[Refused]]:
        """Return the records of the next messages up to a sequence, and those that cannot be decoded."""
        records: list[NatsRecord] = []
        refused: list[Refused] = []
        self.gap = None
        for message in messages:
            sequence, delivered, timestamp_ns = _place(message.reply)
            if delivered != self._delivered + 1:
                raise ConnectionError(f"messages of stream {self._stream!r} were lost on their way")
            self._delivered = delivered
            if end is not None and sequence > end:
                self.last = end
                break
            if sequence != self.last + 1 and self.gap is None:
                self.gap = self.last + 1
            self.last = sequence
            headers = tuple((message.headers or {}).items())
            value = message.data
            try:
                if self._decode is not None:
                    value = self._decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError) as reason:
                error = NatsError(
                    f"message {sequence} of stream {self._stream!r} is not in its format: {reason}. Correct "
                    "value_type, or go on without such messages: flow.source(..., dead_letters=flow.dead_letters())"
                )
                raw = NatsRecord(message.data, message.subject, headers, timestamp_ns // 1_000_000, sequence)
                refused.append(Refused(raw, error, f"message {sequence}"))
            else:
                records.append(NatsRecord(value, message.subject, headers, timestamp_ns // 1_000_000, sequence))
        return records, refused

    def skip_to(self, sequence: int) -> None:
        """Go on behind a sequence, up to which no more messages come."""
        if sequence > self.last:
            self.gap = self.last + 1 if self.gap is None else self.gap
            self.last = sequence


def _place(reply: str) -> tuple[int, int, int]:
    """Return what the subject of a reply has: the sequences in the stream and of the consumer, and the time in ns."""
    parts = reply.split(".")
    at = 5 if len(parts) == 9 else 7
    return int(parts[at]), int(parts[at + 1]), int(parts[at + 2])
