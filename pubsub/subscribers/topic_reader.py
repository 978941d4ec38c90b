"""The reader of a topic for one subscription: it turns messages of publishers into events."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.messages.wire import Numbered, PartitionEnded
from tidewheel.pubsub.protocol.fetched import Fetched
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.subscribers.message_source import MessageSource

WAIT_S: Final = 5.0
"""The seconds after which a reader that waits for messages returns without any."""


class TopicReader:
    """Reads for one subscription, on one thread or task at a time; any thread may close it.

    Attributes:
        error: the error that has ended the subscription; it is raised after all earlier events.
        fetching: the future of a read on a thread, for tasks of asyncio; None if there is none.
    """

    def __init__(self, topic: str, source: MessageSource, subscriber: Subscriber) -> None:
        self._topic = topic
        self.source = source
        self.subscriber = subscriber
        self._turn = threading.Lock()
        self.events: deque[Any] = deque()
        self.error: Exception | None = None
        self.is_closed = False
        self._thread: ThreadPoolExecutor | None = None
        self.fetching: Future[list[Fetched] | Exception] | None = None

    def read(self, timeout_s: float) -> None:
        """Read messages that arrive within ``timeout_s`` seconds.

        Raises:
            DeliveryError: two threads read, or the local publishing job is idle.
        """
        if not self._turn.acquire(blocking=False):
            raise DeliveryError(
                f"two threads read one subscription to topic {self._topic!r}: let each have one of its own",
                topic=self._topic,
            )
        try:
            fetching = self.fetching
            if fetching is None:
                self._receive(self._outcome(self.source.fetch, timeout_s))
            elif wait([fetching], timeout_s).done:
                self.fetching = None
                self._receive(fetching.result())
        finally:
            self._turn.release()

    async def read_async(self, owner: object) -> None:
        """Read on a thread of this reader, even after its task is cancelled.

        Args:
            owner: the object that releases this reader when it is garbage-collected. The read keeps it alive; otherwise
                the collector could wait for a lock that its own thread holds.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, f"tidewheel-{self._topic}")
        if self.is_closed:
            self._thread.shutdown(wait=False)
        try:
            fetching = self.fetching or self._thread.submit(self._outcome, self.source.fetch_elsewhere, WAIT_S, owner)
        except RuntimeError:  # another thread has closed it just now
            return
        self.fetching = fetching
        await asyncio.wait([asyncio.wrap_future(fetching)])
        if self.fetching is fetching:  # no other task has received that result
            self.fetching = None
            self._receive(fetching.result())

    @staticmethod
    def _outcome(
        fetch: Callable[[float], list[Fetched]], timeout_s: float, owner: object = None
    ) -> list[Fetched] | Exception:
        try:
            return fetch(timeout_s)
        except Exception as error:  # noqa: BLE001 - the receiver raises it
            return error

    def _receive(self, found: list[Fetched] | Exception) -> None:
        try:
            if isinstance(found, Exception):
                raise found
            for fetched in found:
                for numbered in fetched.messages:
                    self._receive_message(fetched.partition, numbered)
        except (PublisherLost, ProtocolError) as error:
            self._fail(error)
        except DeliveryError as error:
            if error is found:
                raise  # more messages may come
            self._fail(error)
        if self.subscriber.is_ended and not self.source.is_durable:
            self.release()

    def _receive_message(self, partition: int, numbered: Numbered) -> None:
        self.events.extend(self.subscriber.receive(partition, numbered))
        if self.subscriber.unseen:
            self.source.acknowledge(self.subscriber.unseen)
            self.subscriber.unseen = []
        if isinstance(numbered.message, PartitionEnded):
            self.source.detach(partition)

    def _fail(self, error: Exception) -> None:
        self.error = error
        self.release()

    def close(self) -> None:
        """Leave the topic, and end a read in progress; idempotent."""
        self.is_closed = True
        self.source.leave()
        self.release()

    def release(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False)
        self.source.release()
