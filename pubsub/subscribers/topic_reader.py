"""The source of the messages of a subscription: the interface, and its form within one process."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot, Numbered
from tidewheel.pubsub.publishers.connection import LocalPublisher

WAIT_S = 5.0
"""How long a reader waits for news before it returns with nothing, in seconds."""

_RUN_S = 0.2
"""So long may a job of this process run that is only asked for what there is."""
_IDLE_S = 0.01


@dataclass(frozen=True, slots=True)
class Fetched:
    """Messages of one partition, in order."""

    partition: int
    messages: Sequence[Numbered]


class TopicReader(ABC):
    """Connects one subscriber to all partitions of a topic. One thread reads; any thread may close.

    Attributes:
        is_durable: whether what is read is kept until it is acknowledged.
        began: both frontiers of each partition where the subscription once began, if it goes on now; otherwise None.
    """

    is_durable: bool = False
    began: Sequence[InitialFrontierSnapshot] | None = None

    @abstractmethod
    def attach(self) -> None:
        """Connect to every partition; raises DeliveryError if that does not work."""

    @abstractmethod
    def read(self, wanted: Collection[int], timeout_s: float = WAIT_S) -> list[Fetched]:
        """Return the next messages of some of the ``wanted`` partitions, as soon as there are any.

        Returns nothing after ``timeout_s`` seconds without news, and at once after `close`.

        Raises:
            PublisherLost: a publisher is dead.
            DeliveryError: nothing will ever come; not where ``timeout_s`` is 0.
        """

    def read_elsewhere(self, wanted: Collection[int], timeout_s: float = WAIT_S) -> list[Fetched]:
        """Do what `read` does, on a thread of its own: what others do meanwhile may be what it waits for."""
        return self.read(wanted, timeout_s)

    def acknowledge(self, batches: Sequence[tuple[int, int]]) -> None:  # noqa: B027 - most keep nothing
        """Take note that nobody needs some batches any more, each a partition and its number there; from any thread."""

    def leave(self) -> None:  # noqa: B027 - most keep nothing
        """Have noted what was acknowledged; waits some seconds at most. To be called once, before `close`."""

    def detach(self, partition: int) -> None:  # noqa: B027 - most have let go already
        """Let go of one partition, whose last message has been read; does not wait."""

    @abstractmethod
    def close(self) -> None:
        """Let go of every partition; does not wait. Called again, it does nothing."""


class LocalTopicReader(TopicReader):
    """Reads from the publishers of a job in this process, and runs the job when there is nothing to read.

    Args:
        topic: its name.
        publishers: one for each partition, at least one.
        subscriber: the name of the subscriber.
        options: what it asks for.
    """

    def __init__(
        self, topic: str, publishers: Sequence[LocalPublisher], subscriber: str, options: DeliveryOptions = EVERYTHING
    ) -> None:
        self._options = options
        self._topic = topic
        self._publishers = publishers
        self._subscriber = subscriber
        self._is_closed = threading.Event()

    def attach(self) -> None:
        """Connect to every partition."""
        for publisher in self._publishers:
            publisher.attach(self._subscriber, self._options)

    def read(self, wanted: Collection[int], timeout_s: float = WAIT_S) -> list[Fetched]:
        """Return what waits; if nothing does, run the job until something does, it has nothing to do, or it is late."""
        pump, is_idle = self._publishers[0].pump, False
        if pump is None:
            self._wait(wanted, timeout_s)
        else:
            is_idle = self._run(pump, wanted, time.monotonic() + max(timeout_s, _RUN_S))
        # Another thread may have published between the look and the pump, so look once more before giving up.
        found = self._fetch(wanted)
        if not found and is_idle and timeout_s and not self._is_closed.is_set():
            raise self._idle()
        return found

    def read_elsewhere(self, wanted: Collection[int], timeout_s: float = WAIT_S) -> list[Fetched]:
        """Do what `read` does, but wait where the job has nothing to do."""
        pump, until_s = self._publishers[0].pump, time.monotonic() + timeout_s
        if pump is None:
            return self.read(wanted, timeout_s)
        while self._run(pump, wanted, until_s):
            self._wait(wanted, _IDLE_S)
        return self._fetch(wanted)

    def _run(self, pump: Callable[[], bool], wanted: Collection[int], until_s: float) -> bool:
        """Run the job until there is news, or it is late; return whether it has nothing to do."""
        while not self._has_news(wanted) and not self._is_closed.is_set() and time.monotonic() < until_s:
            if not pump():
                return True
        return False

    def _idle(self) -> DeliveryError:
        return DeliveryError(
            f"topic {self._topic!r}: the local job that publishes it is idle, so nothing will come. "
            "Send to its inputs, and advance or close them, before reading on",
            topic=self._topic,
        )

    def _wait(self, wanted: Collection[int], timeout_s: float) -> None:
        changed = self._publishers[0].changed
        with changed:
            changed.wait_for(lambda: self._is_closed.is_set() or self._has_news(wanted), timeout_s)

    def _has_news(self, wanted: Collection[int]) -> bool:
        return any(self._publishers[partition].has_news(self._subscriber) for partition in wanted)

    def _fetch(self, wanted: Collection[int]) -> list[Fetched]:
        if self._is_closed.is_set():
            return []
        taken = ((partition, self._publishers[partition].take(self._subscriber)) for partition in wanted)
        return [Fetched(partition, messages) for partition, messages in taken if messages]

    def detach(self, partition: int) -> None:
        """Let go of one partition."""
        self._publishers[partition].detach(self._subscriber)

    def close(self) -> None:
        """Let go of every partition and wake whoever reads."""
        self._is_closed.set()
        for publisher in self._publishers:
            publisher.detach(self._subscriber)
