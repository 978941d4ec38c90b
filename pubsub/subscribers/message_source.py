"""Where a reader gets the messages of a topic: from its actors, or from a job of this process."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot
from tidewheel.pubsub.protocol.fetched import Fetched


class MessageSource(ABC):
    """The publishers of a topic, as one subscription reads from them. One thread fetches at a time; any may release.

    Attributes:
        is_durable: whether messages are kept until they are acknowledged.
        is_local: whether a job of this process publishes them.
        began: both frontiers of each partition where the subscription once began, if it continues; otherwise None.
    """

    is_durable: bool = False
    is_local: bool = False
    began: Sequence[InitialFrontierSnapshot] | None = None

    @abstractmethod
    def fetch(self, timeout_s: float) -> list[Fetched]:
        """Return the next messages as soon as there are any; none after ``timeout_s`` seconds, or after `release`.

        Raises:
            PublisherLost: a publisher is dead.
            DeliveryError: no message will ever come; not where ``timeout_s`` is 0.
        """

    def fetch_elsewhere(self, timeout_s: float) -> list[Fetched]:
        """Do as `fetch` does, on a thread for which nothing waits: other threads may send what it waits for."""
        return self.fetch(timeout_s)

    def acknowledge(self, batches: Sequence[tuple[int, int]]) -> None:  # noqa: B027 - most keep nothing
        """Record that no one needs some batches any more, each a partition and its number there; from any thread."""

    def check_end(self) -> None:  # noqa: B027 - most keep nothing
        """Raise PublisherLost if the topic has ended for this reader, but its acknowledgements are lost."""

    def leave(self) -> None:  # noqa: B027 - most keep nothing
        """Have the acknowledgements noted; waits some seconds at most. To be called before `release`."""

    def detach(self, partition: int) -> None:  # noqa: B027 - most have let go already
        """Let go of one partition, whose last message was read; does not wait."""

    @abstractmethod
    def release(self) -> None:
        """Let go of every partition, and wake the thread that fetches; does not wait. Idempotent."""
