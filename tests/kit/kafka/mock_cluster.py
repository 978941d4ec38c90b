"""librdkafka's mock cluster: brokers in this process that clients of any process can connect to.

Topics make themselves, with four partitions. A partition keeps about 4 MB. Committed offsets are kept; transactions are
not proved by it.
"""

import socket
from collections.abc import Iterable, Mapping
from typing import Any

import confluent_kafka

Sent = tuple[bytes | None, bytes | None]
"""A value and a key."""


class MockCluster:
    """A cluster of one broker, gone at `close`."""

    def __init__(self) -> None:
        self._producer: Any = confluent_kafka.Producer(
            {
                "bootstrap.servers": "mock:9092",
                "test.mock.num.brokers": 1,
                "linger.ms": 1,
                "log_level": 0,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        brokers = self._producer.list_topics(timeout=10).brokers.values()
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def send(
        self,
        topic: str,
        records: Iterable[Sent],
        *,
        partition: int = 0,
        timestamp_ms: int = 0,
        headers: Mapping[str, bytes] | None = None,
    ) -> None:
        """Send records to a partition, and wait until they are there."""
        more: dict[str, Any] = {} if headers is None else {"headers": dict(headers)}
        for number, (value, key) in enumerate(records):
            self._producer.produce(topic, value, key, partition, timestamp=timestamp_ms, **more)
            if number % 1000 == 0:
                self._producer.poll(0)
        assert self._producer.flush(30) == 0, "all are sent"

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of a group, for the partitions that have one."""
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.servers, "group.id": group})
        try:
            asked = [confluent_kafka.TopicPartition(topic, number) for number in range(4)]
            return {one.partition: one.offset for one in consumer.committed(asked, timeout=10) if one.offset >= 0}
        finally:
            consumer.close()

    def close(self) -> None:
        """End the cluster."""
        self._producer = None


def unused_address() -> str:
    """Return an address at which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"
