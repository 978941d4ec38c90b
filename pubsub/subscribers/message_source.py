"""The origin of a reader's messages: a topic's actors, or a job of this process."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot
from tidewheel.pubsub.protocol.fetched import Fetched


class MessageSource(ABC):
    """The publishers of a topic, for one subscription. One thread fetches; any thread may release.

    Attributes:
        began: both frontiers of each partition where an earlier subscription began, if this one continues it; otherwise
            None.
    """

    is_durable: bool = False
    is_local: bool = False
    began: Sequence[InitialFrontierSnapshot] | None = None

    @abstractmethod
    def fetch(self, timeout_s: float) -> list[Fetched]:
        """Return the next messages; return none after ``timeout_s`` seconds, or after `release`.

        Raises:
            PublisherLost: a publisher is dead.
            DeliveryError: no message can arrive any more; not raised with a ``timeout_s`` of 0.
        """

    def fetch_elsewhere(self, timeout_s: float) -> list[Fetched]:
        """Call `fetch` on a separate thread, since the calling thread may have to send the awaited messages."""
        return self.fetch(timeout_s)

    def acknowledge(self, batches: Sequence[tuple[int, int]]) -> None:  # noqa: B027 - most keep nothing
        """Acknowledge batches, each given as (partition, number); thread-safe."""

    def check_end(self) -> None:  # noqa: B027 - most keep nothing
        """Raise PublisherLost if the topic has ended for this reader, but its acknowledgements were lost."""

    def leave(self) -> None:  # noqa: B027 - most keep nothing
        """Wait, some seconds at most, until the last acknowledgements are recorded; call this before `release`."""

    def detach(self, partition: int) -> None:  # noqa: B027 - most have let go already
        """Disconnect from one partition, which was read to its end, without waiting."""

    @abstractmethod
    def release(self) -> None:
        """Disconnect from all partitions, and wake the fetching thread, without waiting; idempotent."""
