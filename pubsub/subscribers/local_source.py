"""The messages of a topic of a job in this process."""

import threading
import time
from collections.abc import Callable

from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.protocol.fetched import Fetched, opened
from tidewheel.pubsub.publishers.local_publisher import LocalPublisher
from tidewheel.pubsub.subscribers.message_source import MessageSource

_RUN_S = 0.2
"""The shortest time for which a poll may run the job of this process, in seconds."""
_IDLE_S = 0.01


class LocalSource(MessageSource):
    """The publishers of a job in this process; the job runs when there is nothing to read."""

    is_local = True

    def __init__(self, info: TopicInfo, subscriber: str, options: DeliveryOptions = EVERYTHING) -> None:
        self._topic = info.name
        self._publishers: dict[int, LocalPublisher] = dict(enumerate(info.partitions))
        self._changed = self._publishers[0].changed
        self._pump = self._publishers[0].pump
        self._subscriber = subscriber
        self._is_released = threading.Event()
        for publisher in self._publishers.values():
            publisher.attach(subscriber, options)

    def fetch(self, timeout_s: float) -> list[Fetched]:
        """Return waiting messages.

        If there are none, run the job until there are messages, the job is idle, or the time is up.
        """
        is_idle = False
        if self._pump is None:
            self._wait(timeout_s)
        else:
            is_idle = self._run(self._pump, time.monotonic() + max(timeout_s, _RUN_S))
        # Another thread may have published between the look and the job's round, so look once more before giving up.
        found = self._take()
        if not found and is_idle and timeout_s and not self._is_released.is_set():
            raise DeliveryError(
                f"topic {self._topic!r}: the local job that publishes it is idle, so nothing will come. "
                "Send to its inputs, and advance or close them, before reading on",
                topic=self._topic,
            )
        return found

    def fetch_elsewhere(self, timeout_s: float) -> list[Fetched]:
        if self._pump is None:
            return self.fetch(timeout_s)
        until_s = time.monotonic() + timeout_s
        while self._run(self._pump, until_s):
            self._wait(_IDLE_S)
        return self._take()

    def _run(self, pump: Callable[[], bool], until_s: float) -> bool:
        while not self._has_news() and time.monotonic() < until_s:
            if not pump():
                return True
        return False

    def _wait(self, timeout_s: float) -> None:
        with self._changed:
            self._changed.wait_for(self._has_news, timeout_s)

    def _has_news(self) -> bool:
        publishers = list(self._publishers.values())
        return self._is_released.is_set() or any(publisher.has_news(self._subscriber) for publisher in publishers)

    def _take(self) -> list[Fetched]:
        if self._is_released.is_set():
            return []
        taken = ((number, publisher.take(self._subscriber)) for number, publisher in self._publishers.items())
        return [Fetched(number, opened(told)) for number, told in taken if told]

    def detach(self, partition: int) -> None:
        self._publishers.pop(partition).detach(self._subscriber)

    def release(self) -> None:
        self._is_released.set()
        for publisher in list(self._publishers.values()):
            publisher.detach(self._subscriber)
