"""Reads a topic without a log from its publishers: over sockets from those on the same node, otherwise by calls."""

import contextlib
import os
import select
import threading
from collections.abc import Collection, Sequence
from math import ceil
from typing import Any

from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.exactly_once.codec import CODEC
from tidewheel.pubsub.exactly_once.frames import Join
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import LastMessage, Numbered
from tidewheel.pubsub.subscribers.parents import called
from tidewheel.pubsub.subscribers.topic_reader import WAIT_S, Fetched, TopicReader
from tidewheel.transport.call_link import CallParent
from tidewheel.transport.frames import MOST_AT_ONCE, STEADILY
from tidewheel.transport.stream_link import ParentLink
from tidewheel.transport.tickets import SocketOffer

_ATTACH_TIMEOUT_S = 30.0
_ATTEMPTS = 10
_PING_TIMEOUT_S = 10.0


class LiveReader(TopicReader):
    """Reads from a publisher for each partition. What has not been read waits in the sockets, and at the publishers.

    Args:
        topic: its name, for errors.
        publishers: the handles of the actors, by partition.
        subscriber: a name that no other subscriber has.
        options: which messages it wants, and what happens when it falls behind.
        node: the node of the cluster that this process is on.
    """

    def __init__(
        self,
        topic: str,
        publishers: Sequence[Any],
        subscriber: str,
        options: DeliveryOptions = EVERYTHING,
        node: str = "",
    ) -> None:
        self._topic = topic
        self._publishers = publishers
        self._subscriber = subscriber
        self._options = options
        self._node = node
        self._parents: dict[int, ParentLink | CallParent] = {}
        self._partitions: dict[int, int] = {}
        self._lost: dict[int, str] = {}
        self._poll = select.poll()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll.register(self._bell, select.POLLIN)
        self._reading = threading.Lock()
        self._closing = threading.Lock()
        self._is_closed = False

    # ------------------------------------------------------------------ coming

    def attach(self) -> None:
        """Connect to every partition, and wait until that is done."""
        import ray

        calls = [publisher.attach.remote(self._subscriber, self._options) for publisher in self._publishers]
        ready, _ = ray.wait(calls, num_returns=len(calls), timeout=_ATTACH_TIMEOUT_S)
        for partition, call in enumerate(calls):
            if call not in ready:
                text = f"{self._where(partition)}: the publisher has not answered for {_ATTACH_TIMEOUT_S:g} s"
                raise DeliveryError(text, topic=self._topic, partition=partition)
            try:
                self.connect(partition, ray.get(call))
            except ray.exceptions.RayError as error:
                raise self._dead(partition, error) from error

    def connect(self, partition: int, offer: SocketOffer | None) -> None:
        """Connect to a publisher, by calls if it offers no socket, or none to this node."""
        connection = None if offer is None else offer.connect(self._node)
        parent: ParentLink | CallParent
        if connection is None:
            parent = CallParent(CODEC, called(self._publishers[partition], self._subscriber), attempts=_ATTEMPTS)
        else:
            parent = ParentLink(CODEC, connection, STEADILY if self._options.slow == "block" else MOST_AT_ONCE)
        parent.say([Join(self._subscriber, None)])
        self._parents[partition] = parent
        self._partitions[parent.fileno()] = partition
        self._poll.register(parent.fileno(), select.POLLIN)

    # ------------------------------------------------------------------ reading

    def read(self, wanted: Collection[int], timeout_s: float = WAIT_S) -> list[Fetched]:
        """Return what has come; wait for something if there is nothing."""
        with self._reading:
            if self._is_closed:
                return []
            lost = self._lost.keys() & set(wanted)
            ready = self._poll.poll(0 if lost else ceil(timeout_s * 1000))
            # Where nothing comes for long, a publisher that is called may have to be called again, or be lost.
            partitions = [self._partitions.get(descriptor) for descriptor, _ in ready] or list(self._parents)
            found = [
                Fetched(partition, messages)
                for partition in partitions
                if partition is not None and (messages := self._messages(partition))
            ]
        if not found and not self._is_closed:
            for partition in self._lost.keys() & set(wanted):
                raise self._why_lost(partition)
        return found

    def _messages(self, partition: int) -> list[Numbered]:
        """Return what has come of one partition, and let go of it after its last message."""
        parent = self._parents[partition]
        messages: list[Numbered] = parent.read()
        has_last = bool(messages) and isinstance(messages[-1].message, LastMessage)
        if has_last or parent.is_lost:
            del self._parents[partition], self._partitions[parent.fileno()]
            self._poll.unregister(parent.fileno())
            if isinstance(parent, CallParent):
                self._call_detach(partition)
            if not has_last:
                self._lost[partition] = parent.why_lost
            parent.close()
        return messages

    def _why_lost(self, partition: int) -> PublisherLost:
        """Return what to raise when a connection has ended before the last message of its publisher."""
        import ray

        try:
            ray.get(self._publishers[partition].ping.remote(), timeout=_PING_TIMEOUT_S)
        except ray.exceptions.RayError as error:
            return self._dead(partition, error)
        text = f"{self._where(partition)}: the publisher has closed the connection: {self._lost[partition]}"
        return PublisherLost(text, topic=self._topic, partition=partition)

    # ------------------------------------------------------------------ going

    def _call_detach(self, partition: int) -> None:
        # The cluster may be gone by now, or even be another one: then there is nothing to let go of.
        with contextlib.suppress(Exception):
            self._publishers[partition].detach.options(num_returns=0).remote(self._subscriber)

    def close(self) -> None:
        """Let go of every partition, and wake the thread that reads; does not wait. Called again, it does nothing."""
        import ray

        with self._closing:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        os.eventfd_write(self._bell, 1)
        with self._reading:
            for partition, parent in self._parents.items():
                if isinstance(parent, CallParent) and ray.is_initialized():
                    self._call_detach(partition)
                parent.close()
            os.close(self._bell)

    def _where(self, partition: int) -> str:
        return f"topic {self._topic!r}, partition {partition}"

    def _dead(self, partition: int, error: Exception) -> PublisherLost:
        text = f"{self._where(partition)}: the publisher is dead or broken: {error}"
        return PublisherLost(text, topic=self._topic, partition=partition)
