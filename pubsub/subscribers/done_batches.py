"""The batches that the consumer of a subscription is done with: it says so, or it comes back for more."""

from collections.abc import Callable, Iterable, Sequence

from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.events import Batch, Epoch, Event, SubstreamsEnded
from tidewheel.pubsub.subscribers.subscription_options import Acknowledging


class DoneBatches:
    """Batches on their way through a consumer.

    Args:
        topic: its name.
        acknowledge: takes the partition and the number of each of some batches that are done with, together; None
            where nobody keeps anything until then.
        ack: who says so.
    """

    def __init__(
        self,
        topic: str,
        acknowledge: Callable[[Sequence[tuple[int, int]]], None] | None = None,
        ack: Acknowledging = "auto",
    ) -> None:
        self._topic = topic
        self._acknowledge = acknowledge
        self._ack = ack
        self._handed: list[Batch | SubstreamsEnded] = []
        self._is_automatic = acknowledge is not None and ack == "auto"

    @property
    def is_automatic(self) -> bool:
        """Whether a consumer that comes back for more is done with what it got."""
        return self._is_automatic

    def hand(self, events: Iterable[Event | Epoch]) -> None:
        """Take note of what the consumer gets, if that is acknowledged by itself."""
        if not self._is_automatic:
            return
        for event in events:
            if isinstance(event, Epoch):
                self._handed += event.batches
                self._handed += event.ends
            elif isinstance(event, Batch | SubstreamsEnded):
                self._handed.append(event)

    def settle(self) -> None:
        """Take note that the consumer comes back for more, or has ended well: it is done with what it got."""
        if self._handed:
            handed, self._handed = self._handed, []
            self._tell(handed)

    def acknowledge(self, done: Epoch | Batch | SubstreamsEnded) -> None:
        """Take the consumer's word that it is done with something.

        Raises:
            DeliveryError: it is not for the consumer to say so.
        """
        if self._acknowledge is None:
            raise DeliveryError(
                f"topic {self._topic!r} is best effort, so there is nothing to acknowledge: publish it with "
                "delivery='exactly_once'",
                topic=self._topic,
            )
        if self._ack == "auto":
            raise DeliveryError(
                f"this subscription to topic {self._topic!r} acknowledges what it has given out when it is asked for "
                "more: subscribe with ack='manual' to do it yourself",
                topic=self._topic,
            )
        if not isinstance(done, Epoch | Batch | SubstreamsEnded):
            raise DeliveryError(
                f"what can be acknowledged is an Epoch, Batch or SubstreamsEnded, not {done!r}", topic=self._topic
            )
        self._tell([*done.batches, *done.ends] if isinstance(done, Epoch) else [done])

    def _tell(self, batches: Iterable[Batch | SubstreamsEnded]) -> None:
        assert self._acknowledge is not None, "somebody wants to know"
        self._acknowledge([(batch.partition, batch.number) for batch in batches])
