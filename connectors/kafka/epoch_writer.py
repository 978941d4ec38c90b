"""A producer that writes epochs, each completely in one short transaction.

The transaction also commits the epoch's number, as the offset of a private group. So epoch and number become visible
together. No transaction is open between two epochs, since it would delay readers. A new producer with the same name
ends the open transaction of the previous producer, which can no longer write.

Source: the read-process-write transactions of KIP-98, with the epoch in place of an input's offset.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

from tidewheel.connectors.kafka.client_config import ClientConfig
from tidewheel.connectors.kafka.failures import FENCED, Trouble
from tidewheel.connectors.kafka.topic_client import TopicClient

LOGGER = logging.getLogger(__name__)

_WITHIN_S: Final = 30.0

Encoded = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...], int | None]
"""Value, key, headers and timestamp in ms of a record."""

_OVERHEAD: Final = 36
"""The bytes of a record, besides its key, value and headers, that the client counts for ``message.max.bytes``."""


def wire_size(record: Encoded) -> int:
    """Return the size that the client compares with ``message.max.bytes``.

    >>> wire_size((b"high", b"Brest", (("hour", b"4"),), None))
    52
    """
    value, key, headers, _ = record
    size = _OVERHEAD + len(value or b"") + len(key or b"")
    for name, data in headers:
        for part in (name.encode(), data or b""):
            size += len(part) + _varint_size(len(part))
    return size


def _varint_size(number: int) -> int:
    """Return the bytes of a number in the variable length of Kafka, which also has a sign."""
    return max(1, -(-(2 * number).bit_length() // 7))


class EpochWriter:
    """The only writer with its name. A call raises ConnectionError if another attempt may succeed, else `KafkaError`.

    Do not use it after an error: make a new writer, which asks the broker for the last epoch.

    Args:
        group: the private group; it is also the transactional id.
        transactions: False to write an epoch with an idempotent producer, and commit its number afterwards.
    """

    def __init__(self, config: ClientConfig, topic: str, group: str, *, transactions: bool) -> None:
        import confluent_kafka

        self._kafka = confluent_kafka
        self._topic = topic
        self._servers = config.servers
        self._trouble = Trouble()
        self._transactions = transactions
        properties = config.properties({"log_level": 2}) | {
            "enable.idempotence": True,
            "error_cb": self._trouble.note,
        }
        if transactions:
            properties["transactional.id"] = group
        what = f"the sink of topic {topic!r} does not begin at {self._servers}"
        with self._trouble.explained(what):
            self._producer: Any = confluent_kafka.Producer(properties, logger=LOGGER)
            if transactions:
                self._producer.init_transactions(_WITHIN_S)
            else:
                self._producer.list_topics(topic, _WITHIN_S)  # connects now; by itself it would in half a second
        self._client = TopicClient(config, group)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()
        self._producer = None  # without references, the producer ends

    @property
    def last(self) -> int | None:
        """Return the last epoch that readers see."""
        offset = self._client.committed(self._topic, 0)
        return None if offset is None else offset - 1

    def write(self, epoch: int, records: Iterable[Encoded]) -> None:
        what = f"epoch {epoch} is not written to topic {self._topic!r} at {self._servers}"
        with self._trouble.explained(what):
            if not self._transactions:
                self._produce(records)
                self._client.commit(self._topic, 0, epoch + 1)
                return
            self._producer.begin_transaction()
            try:
                self._produce(records)
                noted = [self._kafka.TopicPartition(self._topic, 0, epoch + 1)]
                self._producer.send_offsets_to_transaction(noted, self._client.group_metadata, _WITHIN_S)
                self._producer.commit_transaction(_WITHIN_S)
            except BaseException as error:
                self._abort(error)
                raise

    def _produce(self, records: Iterable[Encoded]) -> None:
        failed: list[Any] = []

        def note(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error)

        for value, key, headers, timestamp_ms in records:
            given = {"headers": list(headers), "timestamp": timestamp_ms or 0, "on_delivery": note}
            while True:
                try:
                    self._producer.produce(self._topic, value, key, **given)
                except BufferError:  # until some are sent, or time out
                    self._producer.poll(0.1)
                else:
                    break
        self._producer.flush()
        if failed:
            raise self._kafka.KafkaException(failed[0])

    def _abort(self, error: BaseException) -> None:
        """Abort a transaction that has failed. If the broker cannot be reached, the next writer aborts it."""
        is_fenced = isinstance(error, self._kafka.KafkaException) and error.args[0].name() in FENCED
        if not is_fenced:
            try:
                self._producer.abort_transaction(_WITHIN_S)
            except self._kafka.KafkaException as failure:
                said = "sink of topic %r: a transaction is left to time out, or to the next writer: %s"
                LOGGER.warning(said, self._topic, failure.args[0].str())
