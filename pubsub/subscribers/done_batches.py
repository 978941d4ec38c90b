"""The batches with exactly-once delivery that the consumer of a subscription has had, and their acknowledgement."""

from collections.abc import Callable, Iterable, Sequence

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.events import Batch, Epoch, Event, SubstreamsEnded
from tidewheel.pubsub.subscribers.subscription_options import Acknowledging


class DoneBatches:
    """Batches on their way through a consumer.

    Args:
        topic: its name.
        acknowledge: receives the partition and the number of each of some batches, to be acknowledged together.
        ack: who acknowledges.

    Attributes:
        is_automatic: whether a consumer that asks for more is done with what it got.
    """

    def __init__(
        self, topic: str, acknowledge: Callable[[Sequence[tuple[int, int]]], None], ack: Acknowledging
    ) -> None:
        self._topic = topic
        self._acknowledge = acknowledge
        self._given: list[tuple[int, int]] = []
        self.is_automatic = ack == "auto"

    def give(self, given: Iterable[Event | Epoch]) -> None:
        """Record what the consumer gets."""
        if self.is_automatic:
            for one in given:
                self._given += _numbers(one)

    def settle(self) -> None:
        """Acknowledge what the consumer got, as it asks for more, or has ended well."""
        if self._given:
            given, self._given = self._given, []
            self._acknowledge(given)

    def acknowledge(self, done: Epoch | Batch | SubstreamsEnded) -> None:
        """Acknowledge what the consumer says that it is done with.

        Raises:
            DeliveryError: it is not for the consumer to say so.
        """
        if self.is_automatic:
            raise DeliveryError(
                f"this subscription to topic {self._topic!r} acknowledges what it has given out when it is asked for "
                "more: subscribe with ack='manual' to do it yourself",
                topic=self._topic,
            )
        if not isinstance(done, Epoch | Batch | SubstreamsEnded):
            raise DeliveryError(
                f"what can be acknowledged is an Epoch, Batch or SubstreamsEnded, not {done!r}", topic=self._topic
            )
        self._acknowledge(_numbers(done))


def _numbers(done: Event | Epoch) -> list[tuple[int, int]]:
    """Return the partition and number of each part of an event or epoch that is to be acknowledged."""
    parts = [*done.batches, *done.ends] if isinstance(done, Epoch) else [done]
    return [(part.partition, part.number) for part in parts if isinstance(part, Batch | SubstreamsEnded)]
