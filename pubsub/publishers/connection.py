"""The connection of the operator that publishes, on its worker, to the publisher of its partition.

A connection gathers what one scheduling step of the operator did and sends it at once. It never waits for subscribers:
they are the publisher's business. Where one of them holds the publisher back the connection has no more room, and the
operator leaves unread what comes next, until it has.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from tidewheel.progress import Time
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.encoded_message import encode_batch, encode_ends
from tidewheel.pubsub.messages.wire import DataMessage, FeedEvent, LowerFrontierUpdate

MOST_GATHERED = 1024 * 1024


class PublisherConnection(ABC):
    """One worker's connection to its publisher. The frontier starts as the least time of the domain.

    Args:
        topic: its name.
        partition: the number of the partition.
    """

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._events: list[FeedEvent] = []
        self._gathered_bytes = 0
        self._most_gathered = MOST_GATHERED

    def data(self, time: Time, batch: Any) -> None:
        """Take one batch, encoded at once, so that it may be changed afterwards. An empty batch is no news.

        Raises:
            DeliveryError: it cannot be encoded.
        """
        self._gather(encode_batch, time, batch)

    def ends(self, time: Time, keys: list[Any]) -> None:
        """Take the keys of substreams of which nothing more comes, at a time that is not before their last records.

        Raises:
            DeliveryError: they cannot be encoded.
        """
        self._gather(encode_ends, time, keys)

    def _gather(self, encode: Callable[[Time, Any], DataMessage], time: Time, content: Any) -> None:
        try:
            message = encode(time, content)
        except DeliveryError as error:
            raise DeliveryError(
                f"{self._where} at time {time!r}: {error}", topic=self._topic, partition=self._partition
            ) from error
        if message.records or message.encoding == "ends":
            self._events.append(message)
            self._gathered_bytes += len(message.payload)

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> None:
        """Take one move of the frontier: -1 for each time that left it and +1 for each that entered, indivisible."""
        self._events.append(LowerFrontierUpdate(list(updates)))

    def flush(self) -> None:
        """Send everything since the last flush as one call; does nothing if there is nothing.

        Raises:
            DeliveryError: the publisher did not take this, or something earlier.
        """
        if self._events:
            events, self._events = self._events, []
            self._gathered_bytes = 0
            self._send(events)

    def has_room(self) -> bool:
        """Tell whether there is room for another batch; if not, give it none, but wait for room.

        Raises what `flush` raises.
        """
        if self._gathered_bytes > self._most_gathered:
            self.flush()
        return self._has_room()

    @abstractmethod
    def _has_room(self) -> bool:
        """Tell whether the publisher takes more."""

    @abstractmethod
    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        """Have ``wake`` called, once, from any thread, when there is room again.

        Returns after how many seconds to ask in any case, None for never.
        """

    @abstractmethod
    def _send(self, events: list[FeedEvent]) -> None:
        """Hand events to the publisher."""

    @property
    def _where(self) -> str:
        return f"topic {self._topic!r}, partition {self._partition}"

    def _refusal(self, reason: object) -> DeliveryError:
        text = f"{self._where}: the publisher did not take what was published: {reason}"
        return DeliveryError(text, topic=self._topic, partition=self._partition)


class IdleConnection(PublisherConnection):
    """Takes moves of the frontier and tells nobody: the worker that publishes knows them. There is no data for it."""

    def _send(self, events: list[FeedEvent]) -> None:
        """Forget them."""

    def _has_room(self) -> bool:
        """Tell that there is always room."""
        return True

    def wait_for_room(self, wake: Callable[[], None]) -> float | None:
        """Have nobody wait."""
        return 0.0
