"""The errors between a publisher and a subscriber; always an exception, never silence."""

from tidewheel.progress import TidewheelError


class DeliveryError(TidewheelError):
    """A topic could not be published, found or delivered.

    Args:
        message: the fault, its place, and the remedy.
        topic: the topic, where one was named.
        partition: the partition, where it is about one.
    """

    def __init__(self, message: str, *, topic: str | None = None, partition: int | None = None) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition


class PublisherLost(DeliveryError):  # noqa: N818  it names what happened
    """A publisher died, or its job failed, before its topic ended."""

    @classmethod
    def at(cls, topic: str, partition: int | None, why: str) -> "PublisherLost":
        """Return the error of a partition, of any of them if it is None: its publisher ``why``, a verb first."""
        where = f"topic {topic!r}" if partition is None else f"topic {topic!r}, partition {partition}"
        return cls(f"{where}: the publisher {why}", topic=topic, partition=partition)


class SchemaMismatch(DeliveryError):  # noqa: N818  it names what happened
    """Records are not of the schema that was declared for them, or that a subscriber expects."""


class UnknownTopic(DeliveryError):  # noqa: N818  it names what happened
    """No job published the topic within the time that the subscriber was ready to wait.

    Args:
        message: what was wrong.
        topic: the topic that was asked for.
        waited_s: how long it was waited for, in seconds.
        topics: the topics that exist.
    """

    def __init__(
        self, message: str, *, topic: str | None = None, waited_s: float = 0.0, topics: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, topic=topic)
        self.waited_s = waited_s
        self.topics = topics


class NoCluster(DeliveryError):  # noqa: N818  it names what is missing
    """No job of this process publishes the topic, and there is no Ray cluster on which one could."""
