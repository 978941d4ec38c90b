"""The errors between publisher and subscriber. A loss always raises an error."""

from typing import Self

from tidewheel.progress import TidewheelError


def where(topic: str, partition: int | None) -> str:
    return f"topic {topic!r}" if partition is None else f"topic {topic!r}, partition {partition}"


class DeliveryError(TidewheelError):
    """A topic could not be published, found or delivered.

    Args:
        message: the problem, its place and the remedy.
        topic: the topic, if any.
        partition: the partition, if any.
    """

    def __init__(self, message: str, *, topic: str | None = None, partition: int | None = None) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition

    @classmethod
    def at(cls, topic: str, partition: int | None, why: str) -> Self:
        """Return an error of a partition or, if it is None, of the topic. ``why`` begins with a verb."""
        return cls(f"{where(topic, partition)}: the publisher {why}", topic=topic, partition=partition)


class PublisherLost(DeliveryError):  # noqa: N818  it names what happened
    """A publisher died, or its job failed, before its topic ended."""


class TopicStopped(PublisherLost):
    """A job was stopped, by ``job.stop()``, before its topic had ended."""


class SchemaMismatch(DeliveryError):  # noqa: N818  it names what happened
    """Records do not have the schema that the publisher declares or a subscriber expects."""


class UnknownTopic(DeliveryError):  # noqa: N818  it names what happened
    """No job has published the topic within the subscriber's timeout.

    Args:
        message: the message.
        topic: the name of the topic.
        waited_s: the time waited, in seconds.
        topics: the topics that exist.
    """

    def __init__(
        self, message: str, *, topic: str | None = None, waited_s: float = 0.0, topics: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, topic=topic)
        self.waited_s = waited_s
        self.topics = topics


class NoCluster(DeliveryError):  # noqa: N818  it names what is missing
    """No job of this process publishes the topic, and this process cannot join a Ray cluster."""


class CatalogSilent(DeliveryError):  # noqa: N818  it names what happened
    """The catalog has not answered in time: it may still be starting."""
