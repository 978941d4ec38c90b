"""A topic as an attachment of a dataflow: a job that starts starts its publishers."""

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.publishers.local_publication import LocalPublication
from tidewheel.pubsub.publishers.running_publication import RunningPublication
from tidewheel.pubsub.publishers.topic_description import TopicDescription
from tidewheel.transport.attachment import AttachmentHost


class Publication(TopicDescription):
    """The description of a topic, attached to a dataflow; nothing runs before `start`."""

    __slots__ = ()

    def start(self, host: AttachmentHost) -> RunningPublication:
        """Start a publisher for each partition, and register the topic.

        Raises:
            DeliveryError: a job that lives publishes a topic of that name, or the topic's log cannot be opened.
        """
        if host.engine == "local" and self.log is not None:
            raise DeliveryError(
                f"topic {self.topic!r}: delivery='exactly_once' needs publishers in processes of their own: "
                "run the job with engine='ray', or publish it best effort",
                topic=self.topic,
            )
        if host.engine == "local":
            return LocalPublication(self, host)
        from tidewheel.pubsub.publishers.ray_publication import RayPublication

        return RayPublication(self, host)
