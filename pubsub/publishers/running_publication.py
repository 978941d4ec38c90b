"""A topic of a job that runs: its publishers, from their start to their end."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tidewheel.progress import Time
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.publishers.connection import PublisherConnection

STOPPED_EARLY = "the job was stopped before the topic ended"


class RunningPublication(ABC):
    """A topic of a job that runs.

    Attributes:
        handles: one connection for each worker, by its number.
    """

    handles: Sequence[PublisherConnection]

    def __init__(self, topic: str) -> None:
        self._topic = topic

    @abstractmethod
    def check(self) -> None:
        """Look whether all publishers live; do not wait.

        Raises:
            PublisherLost: one has died.
        """

    @property
    def problem(self) -> str | None:
        """Why nobody can find the topic who looks for it now, or nothing is published; None if neither is so."""
        return None

    @abstractmethod
    def wait_for_subscribers(self, count: int, timeout: float) -> None:
        """Wait until ``count`` subscribers are connected to every partition, ``timeout`` seconds at most.

        Raises:
            DeliveryError: the time is over; the message says how many there are.
        """

    def wait_until(self, time: Time, timeout: float) -> None:
        """Wait until every time before ``time`` is durable at every partition: no death of a process loses it any more.

        Raises:
            TimeoutError: it was not within ``timeout`` seconds.
            DeliveryError: the topic has no log, so nothing of it ever is.
        """
        raise DeliveryError(
            f"topic {self._topic!r} keeps nothing, so there is no waiting until {time!r} is durable: publish it with "
            "delivery='exactly_once'",
            topic=self._topic,
        )

    @abstractmethod
    def statistics(self) -> list[dict[str, int]]:
        """Return, for each partition, what `PublisherStatistics` has; nothing of one that does not answer in time."""

    @abstractmethod
    def finish(self, error: str | None, timeout: float) -> None:
        """End the topic on the job's behalf and take it out of the catalog; called again, it does nothing.

        Call it when no worker of the job runs any more.

        Args:
            error: why the job failed, for the subscribers; None if it did not. A topic that the workers have not ended
                fails all the same.
            timeout: how long to wait for subscribers to fetch the last messages, in seconds.
        """

    def _too_few(self, count: int, connected: Sequence[int], timeout: float) -> DeliveryError:
        return DeliveryError(
            f"topic {self._topic!r}: waited {timeout:g} s for {count} subscribers, and there are {list(connected)} "
            "at its partitions",
            topic=self._topic,
        )
