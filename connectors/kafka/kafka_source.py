"""The source that reads Kafka topics."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, Final

from tidewheel.connectors.kafka.client_config import ClientConfig
from tidewheel.connectors.kafka.errors import KafkaError
from tidewheel.connectors.kafka.failures import failure, is_end, is_gone
from tidewheel.connectors.kafka.formats import Decode, Format, Part
from tidewheel.connectors.kafka.kafka_record import KafkaRecord
from tidewheel.connectors.kafka.topic_client import TopicClient
from tidewheel.host.retry import Retry
from tidewheel.operators.sources.contract import Fetched, Partition, Pause, Refused, Source, Unit
from tidewheel.progress import GraphError

_WAIT_S: Final = 0.2


class KafkaSource(Source[KafkaRecord]):
    """A source of the records of topics, for `Dataflow.source`; needs the extra ``kafka``.

    The source reads each partition in order, and only committed records. It joins no consumer group: the job's
    snapshots have the offsets. It looks for new partitions every 30 seconds (`look_every_s`).

    Args:
        servers: the address of a broker, or several with commas between them.
        topics: the name of a topic, or several.
        value: the format of values, such as `Json`; None for bytes.
        key: the format of keys.
        since: a `datetime` with a zone. A partition without a saved offset begins at the first record with this
            timestamp or a later one; by default at its first record.
        start: the offset where a partition begins that no snapshot has, by the name of the partition, such as
            ``{"tides/0": 17}``; others begin as ``since`` says. An offset whose record is deleted is an error.
        bounded: True to end each partition with the last record that it has when it is first opened.
        group: a consumer group. The source commits saved offsets to it, for tools that show the lag.
        config: further properties of librdkafka, such as ``security.protocol``. A password is a `tidewheel.Secret`.

    Raises:
        GraphError: an argument is wrong, for example a password that is not a `Secret`.
        KafkaError: the extra is not installed.
    """

    look_every_s: float | None = 30.0
    retry = Retry(within_s=300.0, first_pause_s=0.5, longest_pause_s=10.0, jitter=0.5, on=ConnectionError)

    def __init__(  # noqa: PLR0913 - each says something of its own, and most may be left out
        self,
        servers: str,
        topics: str | Sequence[str],
        *,
        value: Format | None = None,
        key: Format | None = None,
        since: datetime | None = None,
        start: Mapping[str, int] | None = None,
        bounded: bool = False,
        group: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._config = ClientConfig("KafkaSource", servers, config or {})
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        if not self._topics or not all(isinstance(topic, str) and topic for topic in self._topics):
            raise GraphError(f"KafkaSource: topics has names of topics, not {topics!r}")
        if since is not None and since.tzinfo is None:
            raise GraphError(f"KafkaSource: since={since!r} has no time zone: take datetime.now(UTC), for example")
        self._start = dict(start or {})
        for name, offset in self._start.items():
            self._check_start(name, offset)
        self._formats: dict[Part, Format | None] = {"value": value, "key": key}
        self._since_ms = None if since is None else int(since.timestamp() * 1000)
        self._bounded = bounded
        self._group = group
        self._committing: TopicClient | None = None
        self._measuring: TopicClient | None = None
        if bounded:
            self.look_every_s = None

    def _check_start(self, name: object, offset: object) -> None:
        topic, _, number = name.rpartition("/") if isinstance(name, str) else ("", "", "")
        if topic not in self._topics or not number.isdecimal():
            raise GraphError(
                f"KafkaSource: start has names of partitions, such as '{self._topics[0]}/0', and not {name!r}"
            )
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise GraphError(f"KafkaSource: start[{name!r}] is an offset, 0 or more, not {offset!r}")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_committing": None, "_measuring": None}

    def partitions(self) -> list[Partition]:
        """Return the partitions of the topics, such as ``tides/0``."""
        with closing(TopicClient(self._config)) as client:
            there = [f"{topic}/{number}" for topic in self._topics for number in client.partitions(topic)]
        if unknown := sorted(self._start.keys() - set(there)):
            raise KafkaError(f"KafkaSource: start has {unknown}, and there are the partitions {there}")
        return [*there]

    def open(
        self, partition: Partition, position: tuple[int, int | None] | None
    ) -> Iterator[Fetched[KafkaRecord] | Pause]:
        """Read a partition. A position is the next record's offset, and the offset at which a bounded source ends."""
        topic, number = _parts(partition)
        decoding = _Decoding(topic, number, self._decoder(topic, "value"), self._decoder(topic, "key"))
        with closing(TopicClient(self._config)) as client:
            offset, end = self._range(client, topic, number, position)
            client.assign(topic, number, offset)
            while end is None or offset < end:
                messages = client.take(_WAIT_S)
                records: list[KafkaRecord] = []
                refused: list[Refused] = []
                for message in messages:
                    if (error := message.error()) is None:
                        if end is not None and message.offset() >= end:
                            offset = end
                            break
                        try:
                            records.append(decoding.record(message))
                        except KafkaError as error_of_one:
                            raw = decoding.as_record(message, message.value(), message.key())
                            refused.append(Refused(raw, error_of_one, f"offset {message.offset()}"))
                        offset = message.offset() + 1
                    elif is_end(error):
                        offset = max(offset, message.offset())  # behind the marks of transactions, too
                    elif position is None and is_gone(error):
                        raise ConnectionError(f"the first records of {partition} are deleted before they are read")
                    else:
                        raise failure(error, f"topic {topic!r}, partition {number}, is not read at offset {offset}")
                if (offset, end) == position or not messages:
                    yield Pause(0)
                else:
                    position = offset, end
                    yield Fetched(records, position, refused=refused)

    def _range(
        self, client: TopicClient, topic: str, number: int, position: tuple[int, int | None] | None
    ) -> tuple[int, int | None]:
        """Return the offsets where reading begins and ends."""
        if position is not None and (not self._bounded or position[1] is not None):
            return position[0], position[1] if self._bounded else None
        first, end = client.first_and_end(topic, number)
        start = self._start.get(f"{topic}/{number}")
        if position is not None:
            first = position[0]
        elif start is not None:
            if not first <= start <= end:
                raise KafkaError(
                    f"KafkaSource: topic {topic!r}, partition {number}, has the offsets from {first} to {end}, and "
                    f"start says {start}, so records would be missing: give an offset that it has"
                )
            first = start
        elif self._since_ms is not None:
            found = client.first_since(topic, number, self._since_ms)
            first = end if found is None else found
        return first, end if self._bounded else None

    def _decoder(self, topic: str, part: Part) -> Decode | None:
        chosen = self._formats[part]
        return None if chosen is None else chosen.decoder(topic, part)

    def saved(self, partition: Partition, position: tuple[int, int | None]) -> None:
        """Commit the offset, if there is a group."""
        if self._group is not None:
            if self._committing is None:
                self._committing = TopicClient(self._config, self._group)
            self._committing.commit(*_parts(partition), position[0])

    def behind(self, partition: Partition, position: tuple[int, int | None] | None) -> Mapping[Unit, float]:
        """Return how many offsets there are up to the end of the partition, or up to that of a bounded read.

        Marks of transactions, and records that the topic has compacted, have offsets too.
        """
        client = self._measuring
        if client is None:
            client = self._measuring = TopicClient(self._config)
        topic, number = _parts(partition)
        try:
            offset, end = self._range(client, topic, number, position)
            if end is None:
                _, end = client.first_and_end(topic, number)
        except BaseException:
            self._measuring = None
            client.close()
            raise
        return {"records": max(0, end - offset)}

    def close(self) -> None:
        """Close the clients that commit offsets and measure the lag."""
        if self._committing is not None:
            self._committing.close()
            self._committing = None
        self._measuring = None  # a thread may be in a call of it; without references, the client ends


class _Decoding:
    """Decodes the messages of a partition."""

    def __init__(self, topic: str, number: int, value: Decode | None, key: Decode | None) -> None:
        self._topic = topic
        self._number = number
        self._value = value
        self._key = key

    def record(self, message: Any) -> KafkaRecord:
        """Return a message as a record; raise KafkaError if it cannot be decoded."""
        part, value, key = "value", message.value(), message.key()
        try:
            if self._value is not None and value is not None:
                value = self._value(value)
            part = "key"
            if self._key is not None and key is not None:
                key = self._key(key)
        except Exception as error:
            raise KafkaError(
                f"the {part} of topic {self._topic!r}, partition {self._number}, offset {message.offset()} is not in "
                f"its format: {type(error).__name__}: {error}. Correct the format, or go on without "
                "such records: flow.source(..., dead_letters=flow.dead_letters())"
            ) from error
        return self.as_record(message, value, key)

    def as_record(self, message: Any, value: Any, key: Any) -> KafkaRecord:
        kind, timestamp_ms = message.timestamp()
        headers = message.headers()
        return KafkaRecord(
            value,
            key,
            () if headers is None else tuple(headers),
            timestamp_ms if kind else None,
            self._topic,
            self._number,
            message.offset(),
        )


def _parts(partition: Partition) -> tuple[str, int]:
    """Return the topic and the number in the name of a partition."""
    topic, _, number = str(partition).rpartition("/")
    return topic, int(number)
