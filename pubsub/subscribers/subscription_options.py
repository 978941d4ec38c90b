"""The options of a subscriber with exactly-once delivery, and the batches that it has not acknowledged yet."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from tidewheel.display.checked_name import check_name
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.subend import Order
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.events import Batch, Epoch, Event, RolledBack, SubstreamsEnded
from tidewheel.pubsub.messages.tick_set import FOREVER

Acknowledging: TypeAlias = Literal["auto", "manual"]
"""How batches are acknowledged: automatically, when the consumer asks for the next, or by the consumer's calls."""

Start: TypeAlias = Literal["live", "earliest"] | int
"""The beginning of a new subscription: the next message, the earliest kept message, or a tick."""


@dataclass(frozen=True, slots=True)
class Durable:
    """Options of a durable subscription, which continues at its last position; for a topic with a log.

    Args:
        name: a later subscriber with the same name, in any process, continues with the unacknowledged records, which
            the log keeps. An earlier subscriber that still reads gets an error.
        ack: ``"auto"`` acknowledges the received records when the program asks for more, or its ``with`` block ends
            without an exception. ``"manual"`` waits for `Subscription.acknowledge`.

    Raises:
        DeliveryError: an argument is wrong.
    """

    name: str
    ack: Acknowledging = "auto"

    def __post_init__(self) -> None:
        SubscriptionOptions(self.name, self.ack)
        if self.name is None:
            raise DeliveryError("the name of a durable subscription is text, not None")


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """The options of one subscriber of a topic with exactly-once delivery.

    Args:
        name: the name of a durable subscription; None for a subscription that ends when closed.
        start: where a new subscription begins; a tick is in microseconds since 1970.
        order: the order of batches of different partitions: any, or the order of ticks.

    Raises:
        DeliveryError: an argument is wrong.
    """

    name: str | None = None
    ack: Acknowledging = "auto"
    start: Start = "live"
    order: Order = "publisher"

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name("a subscription", self.name, DeliveryError)
        if self.ack not in get_args(Acknowledging):
            raise DeliveryError(f"ack is {_ways(Acknowledging)}, not {self.ack!r}")
        if self.order not in get_args(Order):
            raise DeliveryError(f"order is {_ways(Order)}, not {self.order!r}")
        start: object = self.start
        is_tick = isinstance(start, int) and not isinstance(start, bool) and 0 <= start < FOREVER
        if not is_tick and start not in ("live", "earliest"):
            raise DeliveryError(
                f"start is 'live', 'earliest', or a tick, in microseconds since 1970, and not {start!r}"
            )

    @property
    def tick(self) -> int | None:
        """The first wanted tick; None for the next one."""
        if isinstance(self.start, int):
            return self.start
        return 0 if self.start == "earliest" else None


def check_options(info: TopicInfo, options: DeliveryOptions, asked: SubscriptionOptions) -> None:
    """Raise DeliveryError if the topic's delivery does not support one of these options."""
    if info.delivery == "best_effort" and asked != SubscriptionOptions():
        raise DeliveryError(
            f"topic {info.name!r} of job {info.job!r} is best effort, and durable=, start= and order= are for "
            "topics with exactly-once delivery: publish it with log=tw.Log(place)",
            topic=info.name,
        )
    if info.has_history and (options.slow == "drop_epochs" or isinstance(asked.start, int)):
        raise DeliveryError(
            f"topic {info.name!r} has history, so each state needs all epochs: leave slow='drop_epochs' and start= out",
            topic=info.name,
        )
    if info.delivery == "exactly_once" and options.slow == "drop_epochs":
        raise DeliveryError(
            f"topic {info.name!r} has exactly-once delivery, so slow={options.slow!r} is not for it. The log keeps all "
            "unread epochs, however slow the subscriber is: leave slow= out",
            topic=info.name,
        )


def _ways(literal: object) -> str:
    return " or ".join(map(repr, get_args(literal)))


class DoneBatches:
    """The batches that a consumer has received, until they are acknowledged."""

    def __init__(
        self, topic: str, acknowledge: Callable[[Sequence[tuple[int, int]]], None], ack: Acknowledging
    ) -> None:
        self._topic = topic
        self._acknowledge = acknowledge
        self._given: list[tuple[int, int]] = []
        self.is_automatic = ack == "auto"

    def give(self, given: Iterable[Event | Epoch]) -> None:
        """Record the events that the consumer receives; with manual acknowledgement, record only returns of the job."""
        for one in given:
            if self.is_automatic or isinstance(one, RolledBack):
                self._given += _numbers(one)

    def pass_over(self, one: Event) -> None:
        """Acknowledge a return of the job at once, since the consumer gets only complete epochs."""
        if isinstance(one, RolledBack):
            self._acknowledge(_numbers(one))

    def settle(self) -> None:
        """Acknowledge the recorded events, since the consumer asks for more or has ended without an exception."""
        if self._given:
            given, self._given = self._given, []
            self._acknowledge(given)

    def acknowledge(self, done: Epoch | Batch | SubstreamsEnded) -> None:
        """Acknowledge ``done``; raise DeliveryError if acknowledgement is automatic."""
        if self.is_automatic:
            raise DeliveryError(
                f"this subscription to topic {self._topic!r} acknowledges an epoch when it is asked for the next: "
                "subscribe with tw.Durable(name, ack='manual') to do it yourself",
                topic=self._topic,
            )
        if not isinstance(done, Epoch | Batch | SubstreamsEnded):
            raise DeliveryError(
                f"an Epoch, Batch or SubstreamsEnded can be acknowledged, not {done!r}", topic=self._topic
            )
        self._acknowledge(_numbers(done))


def _numbers(done: Event | Epoch) -> list[tuple[int, int]]:
    if isinstance(done, RolledBack):
        return [(done.partition, done.at)]
    parts = [*done.batches, *done.ends] if isinstance(done, Epoch) else [done]
    return [(part.partition, part.number) for part in parts if isinstance(part, Batch | SubstreamsEnded)]
