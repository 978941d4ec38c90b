"""The sockets of one publisher: what its worker tells it comes in, and what its subscribers want goes out.

All of it runs on one asyncio loop, that of the publisher's actor. A subscriber's connection is given messages as fast
as it takes them; the rest waits in its queue in the `Publisher`, where it is bounded. While a subscriber holds the
publisher back, nothing is read from the worker, whose own connection then fills up.
"""

import asyncio
import socket
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Final

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.messages.wire import (
    DataMessage,
    Disconnected,
    Failed,
    FeedEvent,
    LowerFrontierUpdate,
    PartitionEnded,
)
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.protocol.socket_frames import FrameReader, decode, encode
from tidewheel.transport import socket_offer
from tidewheel.transport.socket_offer import SocketOffer
from tidewheel.transport.socket_writer import SocketWriter
from tidewheel.transport.ticket_listener import TicketListener

_WRITE_BYTES = 1024 * 1024
_MOST_WRITES = 8
_MOST_ENCODED = 1024

TAKEN: Final = b"\x01"
"""What a publisher answers its worker when the partition is finished."""
REFUSED: Final = b"\x00"
"""What comes before the reason why it did not take something."""


class PublisherHost(ABC):
    """What owns the publisher and its sockets."""

    refusal: str
    """Why it has not taken what the worker told; empty as long as it has."""

    @abstractmethod
    def take(self, events: list[FeedEvent]) -> None:
        """Take what the worker told."""

    @abstractmethod
    def refuse(self, reason: str) -> None:
        """Fail, since what the worker told makes no sense."""

    @abstractmethod
    def go_on_soon(self) -> None:
        """Look again at what is to be done, since a connection takes more; not within this call."""

    @abstractmethod
    def connected(self, subscriber: str) -> None:
        """Take note that a subscriber has a connection."""

    @abstractmethod
    def leave(self, subscriber: str) -> None:
        """Forget a subscriber that has gone, or has all."""


class PublisherSocket:
    """Listens for the worker and the subscribers of one publisher.

    Args:
        publisher: the core; it is only touched on the loop.
        host: what owns it.
        node: the node of the cluster that this process is on.
    """

    def __init__(self, publisher: Publisher, host: PublisherHost, node: str) -> None:
        self._publisher = publisher
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._deliveries: dict[str, _Delivery] = {}
        self._feeds: list[_Feed] = []
        self._encoded: dict[int, tuple[object, list[object]]] = {}
        self._listener: TicketListener[str | None] = TicketListener(node, self._admitted)

    def offer(self, subscriber: str | None) -> SocketOffer:
        """Return where to connect to for a subscriber; None stands for the worker."""
        return self._listener.offer(subscriber)

    def withdraw(self, subscriber: str) -> None:
        """Let go of a subscriber, connected or not."""
        self._listener.withdraw(subscriber)
        delivery = self._deliveries.pop(subscriber, None)
        if delivery is not None:
            delivery.close()

    def written(self, subscriber: str) -> int:
        """Return how many bytes the connection of a subscriber has taken."""
        delivery = self._deliveries.get(subscriber)
        return 0 if delivery is None else delivery.written

    def deliver(self) -> None:
        """Give every connection what there is for it and what it takes. Complexity: O(subscribers)."""
        for delivery in list(self._deliveries.values()):
            delivery.go_on()
        self._encoded.clear()
        for feed in self._feeds:
            feed.settle()

    def pause(self, *, is_paused: bool) -> None:
        """Read nothing more from the worker, or go on with that."""
        for feed in self._feeds:
            feed.pause(is_paused=is_paused)

    def _admitted(self, connection: socket.socket, subscriber: str | None) -> None:
        """Take on a connection, of the worker or of a subscriber."""
        socket_offer.prepare(connection, steadily=subscriber is not None and self._publisher.may_hold(subscriber))
        if subscriber is None:
            feed = _Feed(connection, self._loop, self._publisher, self._host)
            self._feeds.append(feed)
            feed.pause(is_paused=bool(self._publisher.holders()))
        else:
            delivery = _Delivery(connection, subscriber, self._loop, self._publisher, self._host, self._encoded)
            self._deliveries[subscriber] = delivery
            self._host.connected(subscriber)
            delivery.go_on()
            self._encoded.clear()


class _Delivery:
    """The connection of one subscriber."""

    def __init__(
        self,
        connection: socket.socket,
        subscriber: str,
        loop: asyncio.AbstractEventLoop,
        publisher: Publisher,
        host: PublisherHost,
        encoded: dict[int, tuple[object, list[object]]],
    ) -> None:
        self._connection = connection
        self._subscriber = subscriber
        self._loop = loop
        self._publisher = publisher
        self._host = host
        self._encoded = encoded
        self._writer = SocketWriter(connection)
        self._last = -1
        self._is_waiting = False
        self._is_last = False
        # A subscriber says nothing, so if anything can be read it has gone.
        loop.add_reader(connection, self._left)

    def go_on(self) -> None:
        """Write what there is, until the connection takes no more, or it is the turn of others."""
        if self._is_waiting:
            return
        try:
            self._write()
        except OSError:
            self._left()

    def _write(self) -> None:
        for _ in range(_MOST_WRITES):
            if self._is_last:
                self._left()
                return
            messages = self._publisher.fetch(self._subscriber, self._last, _WRITE_BYTES)
            if not messages:
                return
            for numbered in messages:
                self._writer.add(self._frame(numbered))
            self._last = messages[-1].sequence
            self._is_last = isinstance(messages[-1].message, PartitionEnded | Failed | Disconnected)
            if not self._writer.write():
                break
        self._is_waiting = True
        self._loop.add_writer(self._connection, self._writable)

    def _frame(self, numbered: object) -> list[object]:
        """Return the frame of a message, which is often that of many subscribers."""
        found = self._encoded.get(id(numbered))
        if found is None or found[0] is not numbered:
            if len(self._encoded) >= _MOST_ENCODED:
                self._encoded.clear()
            found = self._encoded[id(numbered)] = (numbered, encode(numbered))  # type: ignore[arg-type]
        return found[1]

    @property
    def written(self) -> int:
        """How many bytes the connection has taken."""
        return self._writer.written_bytes

    def _writable(self) -> None:
        try:
            if not self._writer.write():
                return
        except OSError:
            self._left()
            return
        self._loop.remove_writer(self._connection)
        self._is_waiting = False
        self.go_on()
        self._encoded.clear()
        self._host.go_on_soon()

    def _left(self) -> None:
        self._host.leave(self._subscriber)

    def close(self) -> None:
        """Let go of the connection; what it has taken arrives."""
        self._loop.remove_reader(self._connection)
        self._loop.remove_writer(self._connection)
        self._connection.close()


class _Feed:
    """The connection of the worker."""

    def __init__(
        self, connection: socket.socket, loop: asyncio.AbstractEventLoop, publisher: Publisher, host: PublisherHost
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._publisher = publisher
        self._host = host
        self._reader = FrameReader(connection, decode)
        self._is_paused = True
        self._is_closed = False

    def pause(self, *, is_paused: bool) -> None:
        """Read nothing more, or go on."""
        if is_paused == self._is_paused or self._is_closed:
            return
        self._is_paused = is_paused
        if is_paused:
            self._loop.remove_reader(self._connection)
        else:
            self._loop.add_reader(self._connection, self._readable)

    def _readable(self) -> None:
        events: list[FeedEvent] = []
        wrong = ""
        try:
            for numbered in self._reader.read():
                if isinstance(numbered.message, DataMessage | LowerFrontierUpdate):
                    events.append(numbered.message)
                else:
                    wrong = f"a worker does not send {numbered.message!r}"
                    break
        except ProtocolError as error:
            wrong = str(error)
        self._host.take(events)
        if wrong:
            self._host.refuse(wrong)
        if self._reader.is_at_end:
            self._close()

    def settle(self) -> None:
        """Tell the worker how it ended, if it has."""
        if self._is_closed:
            return
        if self._host.refusal:
            self._answer(REFUSED + self._host.refusal.encode())
        elif self._publisher.is_finished:
            self._answer(TAKEN)

    def _answer(self, answer: bytes) -> None:
        with suppress(OSError):
            self._connection.send(answer)
        self._close()

    def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._connection)
        self._connection.close()
