"""Reads a topic from publishers on the same node, over a socket from each."""

import os
import select
import socket
import threading
from collections.abc import Collection
from math import ceil

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.messages.wire import Numbered
from tidewheel.pubsub.protocol.socket_frames import MOST_AT_ONCE, STEADILY, FrameReader, decode
from tidewheel.pubsub.subscribers.ray_topic_reader import RayTopicReader
from tidewheel.pubsub.subscribers.topic_reader import WAIT_S, Fetched, TopicReader


class SocketTopicReader(TopicReader):
    """Reads from sockets. What has not been read waits in them, and at the publishers.

    Args:
        attached: what has told the publishers of this subscriber.
        connections: one to each partition; they do not block.
    """

    def __init__(self, attached: RayTopicReader, connections: list[socket.socket]) -> None:
        self._attached = attached
        self._connections = connections
        most_at_once = STEADILY if attached.options.slow == "block" else MOST_AT_ONCE
        self._readers = [FrameReader(connection, decode, most_at_once) for connection in connections]
        self._waker = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._partitions = {connection.fileno(): number for number, connection in enumerate(connections)}
        self._poll = select.poll()
        self._poll.register(self._waker, select.POLLIN)
        self._polled: set[int] = set()
        self._reading = threading.Lock()
        self._closing = threading.Lock()
        self._is_closed = False
        self._error: ProtocolError | None = None

    @classmethod
    def over(cls, attached: RayTopicReader, node: str) -> TopicReader:
        """Return a reader over sockets for a process on ``node``, or ``attached`` where some publisher has none."""
        if any(offer is None or offer.node != node for offer in attached.offers):
            return attached
        connections = [offer.connect(node) for offer in attached.offers if offer is not None]
        connected = [connection for connection in connections if connection is not None]
        if len(connected) < len(connections):
            for connection in connected:
                connection.close()  # by which its publisher takes this subscriber to have left
            attached.attach_anew()
            return attached
        return cls(attached, connected)

    def attach(self) -> None:
        """Do nothing: it is attached."""

    def read(self, wanted: Collection[int], timeout_s: float = WAIT_S) -> list[Fetched]:
        """Return what has come; wait for something if there is nothing."""
        with self._reading:
            if self._is_closed:
                return []
            if self._error is not None:
                raise self._error
            self._look_for(wanted)
            ready = [self._partitions.get(descriptor) for descriptor, _ in self._poll.poll(ceil(timeout_s * 1000))]
            partitions = [partition for partition in ready if partition is not None and not self._is_closed]
            fetched = [Fetched(partition, self._messages(partition)) for partition in partitions]
        found = [one for one in fetched if one.messages]
        if fetched and not found and not self._is_closed:
            if self._error is not None:
                raise self._error
            for partition in partitions:
                if self._readers[partition].is_at_end:
                    raise self._attached.why_broken(partition)
        return found

    def _messages(self, partition: int) -> list[Numbered]:
        """Return what has come of one partition; an error is kept for when that has been returned."""
        messages: list[Numbered] = []
        try:
            messages.extend(self._readers[partition].read())
        except ProtocolError as error:
            self._error = error
        return messages

    def _look_for(self, wanted: Collection[int]) -> None:
        """Have only the sockets of some partitions polled, so that what others send waits there."""
        if self._polled == set(wanted):
            return
        for partition in self._polled.difference(wanted):
            self._poll.unregister(self._connections[partition])
        for partition in set(wanted) - self._polled:
            self._poll.register(self._connections[partition], select.POLLIN)
        self._polled = set(wanted)

    def detach(self, partition: int) -> None:
        """Let go of one partition: its publisher has let go already."""

    def close(self) -> None:
        """Let go of every partition, and wake whoever reads."""
        with self._closing:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        os.eventfd_write(self._waker, 1)
        with self._reading:
            for connection in self._connections:
                connection.close()
            os.close(self._waker)
