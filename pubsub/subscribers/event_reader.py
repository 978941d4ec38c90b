"""The events of a subscription: read from publishers, in the calling thread or for tasks of asyncio."""

import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.messages.events import Event
from tidewheel.pubsub.messages.wire import DataMessage, PartitionEnded
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.subscribers.reading_thread import ReadingThread
from tidewheel.pubsub.subscribers.topic_reader import WAIT_S, Fetched, TopicReader


class EventReader:
    """Reads for one subscription. One thread or task reads at a time; any thread may close.

    Args:
        topic: its name.
        reader: connected to the publishers.
        subscriber: makes events of messages.

    Attributes:
        events: what has been read and not been taken.
        error: what ended the subscription; to be raised after the events that came before it.
        is_closed: whether `close` was called.
        thread: reads for tasks of asyncio; None before the first has read.
    """

    def __init__(self, topic: str, reader: TopicReader, subscriber: Subscriber) -> None:
        self._topic = topic
        self._reader = reader
        self._subscriber = subscriber
        self._turn = threading.Lock()
        self.events: deque[Event] = deque()
        self.error: Exception | None = None
        self.is_closed = False
        self.thread: ReadingThread | None = None
        # A subscription that is dropped without being closed should not keep the publishers waiting for it.
        self._release = weakref.finalize(self, reader.close)

    def close(self) -> None:
        """Leave the topic; a read under way ends. Called again, it does nothing."""
        self.is_closed = True
        self._reader.leave()
        self._release()
        if self.thread is not None:
            self.thread.close()

    def read(self, timeout_s: float) -> None:
        """Read what there is, or comes within ``timeout_s`` seconds."""
        if not self._turn.acquire(blocking=False):
            raise DeliveryError(
                f"two threads read one subscription to topic {self._topic!r}: let each have one of its own",
                topic=self._topic,
            )
        try:
            if self.thread is not None and self.thread.is_reading:  # a task had begun with that, and was cancelled
                read = self.thread.wait(timeout_s)
            else:
                read = partial(self._reader.read, self._subscriber.wanted, timeout_s)
            if read is not None:
                self._take_in(read)
        finally:
            self._turn.release()

    async def read_async(self) -> None:
        """Read on a thread of this subscription's own; one that is under way goes on though its task is cancelled."""
        if self.thread is None:
            self.thread = ReadingThread(f"tidewheel-{self._topic}")
        if self.is_closed:  # by another thread, just now
            self.thread.close()
        read = await self.thread.read(partial(self._reader.read_elsewhere, self._subscriber.wanted, WAIT_S))
        if read is not None:
            self._take_in(read)

    def _take_in(self, read: Callable[[], list[Fetched]]) -> None:
        """Make events of what ``read()`` returns, or take note of how the topic was lost."""
        try:
            found = read()
        except (PublisherLost, ProtocolError) as error:
            self._fail(error)
            return
        try:
            for fetched in found:
                self._receive(fetched)
        except (DeliveryError, ProtocolError) as error:
            self._fail(error)
        if self._subscriber.is_ended and not self._reader.is_durable:
            self._release()

    def _receive(self, fetched: Fetched) -> None:
        for numbered in fetched.messages:
            events = self._subscriber.receive(fetched.partition, numbered)
            self.events.extend(events)
            if not events and isinstance(numbered.message, DataMessage):
                self._reader.acknowledge([(fetched.partition, numbered.sequence)])  # the consumer will never see it
            if isinstance(numbered.message, PartitionEnded):
                self._reader.detach(fetched.partition)

    def _fail(self, error: Exception) -> None:
        """Let go of the topic; ``error`` is raised after the events that came before it."""
        self.error = error
        self._reader.close()
