"""The sink that writes each epoch once to a Kafka topic."""

import logging
from collections.abc import Iterable, Mapping
from contextlib import closing
from itertools import chain
from typing import Any

from tidewheel.batches import batches
from tidewheel.batches.batches import Batch
from tidewheel.connectors.kafka.client_config import ClientConfig
from tidewheel.connectors.kafka.epoch_writer import Encoded, EpochWriter, wire_size
from tidewheel.connectors.kafka.errors import KafkaError
from tidewheel.connectors.kafka.formats import Encode, Format, Part, as_bytes
from tidewheel.connectors.kafka.kafka_record import KafkaRecord
from tidewheel.connectors.kafka.topic_client import TopicClient
from tidewheel.host.retry import Retry
from tidewheel.operators.sinks.sink import Sink
from tidewheel.progress import GraphError, Time

LOGGER = logging.getLogger(__name__)


class KafkaSink(Sink):
    """A Kafka topic as a sink, for `Stream.sink`; needs the extra ``kafka``.

    The records of the stream are `KafkaRecord`; the workers encode their values and keys. Worker 0 writes each epoch in
    one transaction, which also records the epoch's number. So readers of committed records see each epoch once and
    completely. Records with the same key are written in the order of their epochs.

    Args:
        servers: the address of a broker, or several with commas between them.
        topic: the name of the topic.
        name: the name of the sink at the brokers: the same for all runs of this job, and different from all other
            sinks. Its transactional id, and the group that records the last epoch, are ``tidewheel-`` and this name.
        value: the format of values, such as `Json`; None for bytes.
        key: the format of keys.
        transactions: False writes without transactions, if the broker or its access rights rule them out. A crash may
            then write an epoch twice.
        config: further properties of librdkafka, such as ``security.protocol``. A password is a `tidewheel.Secret`.

    Raises:
        GraphError: an argument is wrong, for example a password that is not a `Secret`.
        KafkaError: the extra is not installed.
    """

    retry = Retry(within_s=300.0, first_pause_s=0.5, longest_pause_s=10.0, jitter=0.5, on=ConnectionError)

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        name: str,
        value: Format | None = None,
        key: Format | None = None,
        transactions: bool = True,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._config = ClientConfig("KafkaSink", servers, config or {})
        for argument, given in (("topic", topic), ("name", name)):
            if not isinstance(given, str) or not given:
                raise GraphError(f"KafkaSink: {argument} is a text, not {given!r}")
        self._topic = topic
        self._group = f"tidewheel-{name}"
        self._value, self._key = value, key
        self._transactions = transactions
        self._encoders: tuple[Encode, Encode] | None = None
        self._writer: EpochWriter | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_encoders": None, "_writer": None}

    def prepare(self, epoch: Time, records: Batch) -> list[Encoded]:
        """Encode records; the result travels to worker 0."""
        self._begin()
        return [self._encoded(record, epoch) for record in batches.records(records)]

    def refused(self, records: Batch) -> dict[int, Exception]:
        """Return the records that have no such format, or are larger than ``message.max.bytes`` of ``config``."""
        self._begin()
        found: dict[int, Exception] = {}
        most = self._config.most_bytes
        for place, record in enumerate(batches.records(records)):
            try:
                size = wire_size(self._encoded(record))
            except KafkaError as error:
                found[place] = error
                continue
            if size > most:
                found[place] = KafkaError(
                    f"{self._group}: a record for topic {self._topic!r} has {size:,} bytes, and message.max.bytes of "
                    f"config allows {most:,}. It is {record!r:.200}"
                )
        return found

    def commit(self, epoch: Time, parts: list[list[Encoded]]) -> None:
        """Write an epoch, unless the brokers already have it."""
        if type(epoch) is not int or epoch < 0:
            raise KafkaError(f"{self._group}: epoch {epoch!r} is no integer from 0 on, which an offset could note")

        def note(error: Exception, failures: int) -> None:
            LOGGER.warning("%s: epoch %s is written again, after attempt %d: %s", self._group, epoch, failures, error)

        self.retry.call(lambda: self._commit(epoch, parts), on_failure=note)

    def _commit(self, epoch: int, parts: list[list[Encoded]]) -> None:
        if self._writer is None:
            self._writer = EpochWriter(self._config, self._topic, self._group, transactions=self._transactions)
        try:
            last = self._writer.last
            if last is None or last < epoch:
                self._writer.write(epoch, chain.from_iterable(parts))
        except BaseException:
            self._writer.close()
            self._writer = None  # the next writer asks the brokers which epoch is the last
            raise

    def last_committed(self) -> int | None:
        """Return the last epoch that the group has recorded."""
        with closing(TopicClient(self._config, self._group)) as client:
            offset = self.retry.call(lambda: client.committed(self._topic, 0))
        return None if offset is None else offset - 1

    def close(self) -> None:
        """Disconnect from the brokers."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _encoder(self, chosen: Format | None, part: Part) -> Encode:
        return as_bytes if chosen is None else chosen.encoder(self._topic, part)

    def _begin(self) -> None:
        if self._encoders is None:
            self._encoders = self._encoder(self._value, "value"), self._encoder(self._key, "key")

    def _encoded(self, record: Any, epoch: Time = None) -> Encoded:
        of = "" if epoch is None else f" of epoch {epoch!r}"
        if not isinstance(record, KafkaRecord):
            raise KafkaError(
                f"{self._group}: a record{of} is no KafkaRecord, but {record!r:.200}. Make one of it before, as by "
                "map(lambda order: KafkaRecord(order, key=order.customer))"
            )
        assert self._encoders is not None, "_begin has made them"
        of_value, of_key = self._encoders
        try:
            return (
                None if record.value is None else of_value(record.value),
                None if record.key is None else of_key(record.key),
                _checked_headers(record.headers),
                _checked_time(record.timestamp_ms),
            )
        except Exception as error:
            raise KafkaError(
                f"{self._group}: a record{of} for topic {self._topic!r} has no such format: "
                f"{type(error).__name__}: {error}. It is {record!r:.200}"
            ) from error


def _checked_headers(headers: Iterable[tuple[str, Any]]) -> tuple[tuple[str, bytes], ...]:
    """Return the headers that the client sends. Another name, such as half a surrogate pair, may crash its process."""
    checked: list[Any] = []
    for name, data in headers:
        if not isinstance(name, str) or not isinstance(data, bytes | str | None):
            raise TypeError(f"a header is a pair of a text and bytes, not {(name, data)!r:.200}")
        name.encode()
        checked.append((name, data.encode() if isinstance(data, str) else data))
    return tuple(checked)


def _checked_time(time_ms: Any) -> int | None:
    if time_ms is not None and not (isinstance(time_ms, int) and abs(time_ms) < 1 << 63):
        raise TypeError(f"timestamp_ms is an integer of 64 bits or None, not {time_ms!r:.200}")
    return time_ms
