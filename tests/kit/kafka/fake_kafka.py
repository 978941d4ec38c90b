"""A Kafka in this process, for what mock cluster and small brokers do not have.

That is transactions as readers see them, times of records, new partitions, deleted records, and brokers that come back.
`FakeConsumer` stands in the place of ``confluent_kafka.Consumer``.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

from confluent_kafka import KafkaError, KafkaException, TopicPartition

_BY_SERVERS: "WeakValueDictionary[str, FakeKafka]" = WeakValueDictionary()

_LONGEST_WAIT_S = 0.01


@dataclass(slots=True)
class Entry:
    """A record in the log of a partition, or the mark of the end of a transaction."""

    value: bytes | None
    timestamp_ms: int = 0
    transaction: int | None = None
    is_mark: bool = False


@dataclass(slots=True)
class _Log:
    entries: list[Entry] = field(default_factory=list)
    first: int = 0


class FakeKafka:
    """Topics with their numbers of partitions.

    Attributes:
        is_down: whether no broker answers.
        on_assign: called when a consumer is told what it reads.
    """

    def __init__(self, servers: str, **topics: int) -> None:
        self._changed = threading.Condition()
        self._topics = {topic: [_Log() for _ in range(number)] for topic, number in topics.items()}
        self._open: dict[int, bool] = {}
        self._is_committed: dict[int, bool] = {}
        self.is_down = False
        self.on_assign: Callable[[], object] = lambda: None
        _BY_SERVERS[servers] = self

    def add_partition(self, topic: str) -> None:
        """Add a partition to a topic."""
        with self._changed:
            self._topics[topic].append(_Log())

    def send(
        self, topic: str, partition: int, *values: bytes, timestamp_ms: int = 0, transaction: int | None = None
    ) -> None:
        """Send values, in a transaction with a number of the test's choice if it has one."""
        with self._changed:
            log = self._topics[topic][partition]
            log.entries += [Entry(value, timestamp_ms, transaction) for value in values]
            self._changed.notify_all()

    def end(self, transaction: int, *, commit: bool) -> None:
        """End a transaction: a mark follows in each of its partitions."""
        with self._changed:
            self._is_committed[transaction] = commit
            for logs in self._topics.values():
                for log in logs:
                    if any(entry.transaction == transaction for entry in log.entries):
                        log.entries.append(Entry(None, 0, transaction, is_mark=True))
            self._changed.notify_all()

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete records, as retention does."""
        with self._changed:
            self._topics[topic][partition].first = offset

    # ------------------------------------------------------------------ for consumers

    def log(self, topic: str, partition: int) -> _Log:
        """Return the log of a partition."""
        return self._topics[topic][partition]

    def numbers(self, topic: str) -> list[int] | None:
        """Return the numbers of a topic's partitions, None if there is no such topic."""
        return list(range(len(self._topics[topic]))) if topic in self._topics else None

    def stable_end(self, log: _Log) -> int:
        """Return the offset of the first record of an open transaction, or of the end."""
        for offset, entry in enumerate(log.entries):
            if entry.transaction is not None and entry.transaction not in self._is_committed:
                return offset
        return len(log.entries)

    def is_visible(self, entry: Entry) -> bool:
        """Tell whether readers of committed records see an entry."""
        return not entry.is_mark and (entry.transaction is None or self._is_committed[entry.transaction])

    def wait(self, timeout_s: float) -> None:
        """Wait for something new; the caller has the lock."""
        self._changed.wait(timeout_s)

    @property
    def lock(self) -> threading.Condition:
        """The lock of the logs."""
        return self._changed


class _Message:
    """A message, or an event in its place."""

    def __init__(self, offset: int, entry: Entry | None, error: KafkaError | None = None) -> None:
        self._offset = offset
        self._entry = entry
        self._error = error

    def error(self) -> KafkaError | None:
        return self._error

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes | None:
        return None if self._entry is None else self._entry.value

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 0 if self._entry is None else self._entry.timestamp_ms


class FakeConsumer:
    """What `KafkaSource` uses of a consumer, for readers of committed records."""

    def __init__(self, properties: dict[str, Any], logger: Any = None) -> None:
        self._kafka = _BY_SERVERS[properties["bootstrap.servers"]]
        self._on_error = properties["error_cb"]
        self._begins_anew = properties["auto.offset.reset"] == "earliest"
        self._log: _Log | None = None
        self._offset = 0
        self._told_end = -1

    def close(self) -> None:
        self._log = None

    def list_topics(self, topic: str, timeout: float) -> Any:
        self._reach()
        numbers = self._kafka.numbers(topic)
        error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART) if numbers is None else None
        found = SimpleNamespace(partitions=dict.fromkeys(numbers or []), error=error)
        return SimpleNamespace(topics={topic: found})

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        self._reach()
        with self._kafka.lock:
            log = self._kafka.log(partition.topic, partition.partition)
            return log.first, self._kafka.stable_end(log)

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self._reach()
        found = []
        with self._kafka.lock:
            for one in partitions:
                log = self._kafka.log(one.topic, one.partition)
                offsets = (n for n, entry in enumerate(log.entries) if entry.timestamp_ms >= one.offset)
                found.append(TopicPartition(one.topic, one.partition, next(offsets, -1)))
        return found

    def assign(self, partitions: list[TopicPartition]) -> None:
        (one,) = partitions
        self._log, self._offset = self._kafka.log(one.topic, one.partition), one.offset
        self._kafka.on_assign()

    def poll(self, timeout: float) -> _Message | None:
        if self._kafka.is_down:
            self._on_error(KafkaError(KafkaError._TRANSPORT))
            self._on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
            return None
        until_s = time.monotonic() + min(timeout, _LONGEST_WAIT_S)
        with self._kafka.lock:
            while True:
                found = None if self._log is None else self._next(self._log)
                left_s = until_s - time.monotonic()
                if found is not None or left_s <= 0:
                    return found
                self._kafka.wait(left_s)

    def consume(self, most: int, timeout: float) -> list[_Message]:
        found: list[_Message] = []
        while len(found) < most and (message := self.poll(timeout)) is not None:
            found.append(message)
        return found

    def _next(self, log: _Log) -> _Message | None:
        if self._offset < log.first:
            return _Message(self._offset, None, KafkaError(KafkaError._AUTO_OFFSET_RESET))
        end = self._kafka.stable_end(log)
        while self._offset < end:
            self._offset += 1
            entry = log.entries[self._offset - 1]
            if self._kafka.is_visible(entry):
                return _Message(self._offset - 1, entry)
        if self._told_end == self._offset:
            return None
        self._told_end = self._offset
        return _Message(self._offset, None, KafkaError(KafkaError._PARTITION_EOF))

    def _reach(self) -> None:
        if self._kafka.is_down:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
