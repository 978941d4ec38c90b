"""Operators by which results leave a dataflow, and by which one sees how far they are."""

from typing import Self, TypeVar

from tidewheel.operators.capture import build_capture
from tidewheel.operators.stream_base import StreamBase

Record = TypeVar("Record")


class OutputOperators(StreamBase[Record]):
    """What streams offer to those outside."""

    __slots__ = ()

    def probe(self, name: str) -> Self:
        """Let ``job.probe(name)`` tell which times are complete up to here, at no cost to data. Returns this stream."""
        self.outlet.description.register("probe", name, self.outlet.source)
        return self

    def capture(self, name: str) -> Self:
        """Keep what passes here on its worker for ``job.captured(name)``. Returns this stream."""
        self.outlet.description.register("capture", name, self.outlet.description.size)
        self._sink(f"capture {name}", build_capture, notify=False)
        return self

    def publish(self, topic: str) -> Self:
        """Offer this stream live, as a topic of one partition a worker; see `tidewheel.subscribe`. Returns this stream.

        Raises:
            GraphError: this dataflow publishes a topic of that name already.
        """
        from tidewheel.operators.publish import build_publish
        from tidewheel.pubsub import Publication

        self.outlet.description.attach(topic, Publication(topic, self.outlet.scope.nesting.domain))
        self.outlet.description.register("topic", topic, self.outlet.description.size)
        self._sink(f"publish {topic}", build_publish(topic), notify=True)
        return self
