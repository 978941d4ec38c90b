"""A Kafka consumer that joins no group: it looks up topics, reads one partition, and commits offsets.

A group would assign partitions to its members whenever it likes. This consumer reads the partition that its caller
names.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar
from uuid import uuid4

from tidewheel.connectors.kafka.client_config import ClientConfig
from tidewheel.connectors.kafka.failures import Trouble, failure, passes

LOGGER = logging.getLogger(__name__)

T = TypeVar("T")

_ANSWERS_WITHIN_S: Final = 10.0
_ASKS_FOR_S: Final = 1.0
_POLLS_FOR_S: Final = 0.01
_MOST_RECORDS: Final = 1000

_DEFAULTS: Final = {
    "auto.offset.reset": "error",
    "log_level": 2,  # errors say what is wrong; the log would have each attempt to connect, twenty a second
    "queued.max.messages.kbytes": 8192,  # of each partition; 64 MB would be the default
}


class TopicClient:
    """A client for one thread. A call raises ConnectionError if another attempt may succeed, else `KafkaError`.

    Args:
        group: the group whose committed offsets the client reads and writes; None if it does neither.
    """

    def __init__(self, config: ClientConfig, group: str | None = None) -> None:
        import confluent_kafka

        self._kafka = confluent_kafka
        self._servers = config.servers
        self._trouble = Trouble()
        self._answers: deque[Any] = deque()
        properties = config.properties(_DEFAULTS) | {
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "error_cb": self._trouble.note,
            "on_commit": lambda error, _: self._answers.append(error),
            "group.id": group or f"tidewheel-{uuid4()}",
        }
        with self._trouble.explained("config is refused by the client"):
            self._consumer: Any = confluent_kafka.Consumer(properties, logger=LOGGER)

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    # ------------------------------------------------------------------ looking around

    def partitions(self, topic: str) -> list[int]:
        what = f"topic {topic!r} at {self._servers} cannot be looked up"
        found = self._ask(what, lambda wait_s: self._consumer.list_topics(topic, timeout=wait_s)).topics[topic]
        if found.error is not None:
            raise failure(found.error, what)
        if not found.partitions:
            raise failure(self._kafka.KafkaError(self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART), what)
        return sorted(found.partitions)

    def first_and_end(self, topic: str, number: int) -> tuple[int, int]:
        """Return the offset of the first record, and the offset after the last record that readers may see."""
        partition = self._kafka.TopicPartition(topic, number)
        what = f"the offsets of topic {topic!r}, partition {number}, at {self._servers} are not known"
        first, end = self._ask(what, lambda wait_s: self._consumer.get_watermark_offsets(partition, timeout=wait_s))
        return int(first), int(end)

    def first_since(self, topic: str, number: int, since_ms: int) -> int | None:
        """Return the offset of the first record with this timestamp or a later one; None if there is none."""
        partition = self._kafka.TopicPartition(topic, number, since_ms)
        what = f"the offset of a time in topic {topic!r}, partition {number}, at {self._servers} is not known"
        (found,) = self._ask(what, lambda wait_s: self._consumer.offsets_for_times([partition], timeout=wait_s))
        return int(found.offset) if found.offset >= 0 else None

    def committed(self, topic: str, number: int) -> int | None:
        """Return the offset that the group has committed, inside or outside a transaction; None if there is none."""
        partition = self._kafka.TopicPartition(topic, number)
        what = f"the committed offset of topic {topic!r}, partition {number}, at {self._servers} is not known"
        (found,) = self._ask(what, lambda wait_s: self._consumer.committed([partition], timeout=wait_s))
        if found.error is not None:
            raise failure(found.error, what)
        return int(found.offset) if found.offset >= 0 else None

    @property
    def group_metadata(self) -> Any:
        """The metadata with which a producer commits an offset of the group in a transaction."""
        return self._consumer.consumer_group_metadata()

    def commit(self, topic: str, number: int, offset: int) -> None:
        """Commit an offset for the group, within some seconds."""
        what = f"offset {offset} of topic {topic!r}, partition {number}, is not committed at {self._servers}"
        asked = self._kafka.TopicPartition(topic, number, offset)
        until_s = time.monotonic() + _ANSWERS_WITHIN_S
        self.committed(topic, number)  # a commit that waits for a broker could not be ended
        with self._trouble.explained(what):
            self._answers.clear()
            self._consumer.commit(offsets=[asked], asynchronous=True)
            while not self._answers:
                self._consumer.poll(_POLLS_FOR_S)
                if self._trouble.is_final or time.monotonic() > until_s:
                    raise self._kafka.KafkaException(self._kafka.KafkaError(self._kafka.KafkaError.REQUEST_TIMED_OUT))
            error = self._answers.popleft()
            if error is not None:
                raise self._kafka.KafkaException(error)

    # ------------------------------------------------------------------ reading

    def assign(self, topic: str, number: int, offset: int) -> None:
        """Begin to read a partition at an offset."""
        self._consumer.assign([self._kafka.TopicPartition(topic, number, offset)])

    def take(self, wait_s: float) -> list[Any]:
        """Return messages as soon as there are some; after ``wait_s`` seconds without any, an empty list.

        The last message may mark the end of the partition.
        """
        first = self._consumer.poll(wait_s)
        if first is None:
            if self._trouble.is_final:
                raise failure(self._trouble.latest, f"no broker of {self._servers} answers")
            return []
        self._trouble.forget()
        return [first, *self._consumer.consume(_MOST_RECORDS - 1, 0)]

    # ------------------------------------------------------------------ trouble

    def _ask(self, what: str, call: Callable[[float], T]) -> T:
        """Make a call that may have to wait for a connection; ``what`` describes the call for errors."""
        until_s = time.monotonic() + _ANSWERS_WITHIN_S
        while True:
            try:
                found = call(_ASKS_FOR_S)
            except self._kafka.KafkaException as raised:
                error = raised.args[0]
                self._consumer.poll(0)  # lets the client report errors to its callback
                if not passes(error) or self._trouble.is_final or time.monotonic() > until_s:
                    raise failure(self._trouble.behind(error), what) from None
            else:
                self._trouble.forget()
                return found
