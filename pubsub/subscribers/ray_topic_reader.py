"""Reads a topic from publisher actors by Ray's calls: one long poll outstanding at each partition."""

import contextlib
import threading
from collections.abc import Collection, Sequence
from typing import Any

from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.wire import Disconnected, Failed, Numbered, PartitionEnded
from tidewheel.pubsub.subscribers.topic_reader import WAIT_S, Fetched, TopicReader
from tidewheel.transport.socket_offer import SocketOffer

_MAX_REPLY_BYTES = 8 * 1024 * 1024
_STEADY_REPLY_BYTES = 256 * 1024
_ATTACH_TIMEOUT_S = 30.0
_ATTEMPTS = 10
_PING_TIMEOUT_S = 10.0
_RETRY_DELAY_S = 0.5


class RayTopicReader(TopicReader):
    """Reads from publisher actors. A reply is acknowledged with the next poll, so that one that is lost comes again.

    Args:
        topic: its name.
        publishers: the handle of each partition's actor.
        subscriber: the name of the subscriber, unique.
        options: what it asks for.

    Attributes:
        options: what it asks for.
        offers: where each partition can be read by a socket, once this is attached; None if it cannot.
    """

    def __init__(
        self, topic: str, publishers: Sequence[Any], subscriber: str, options: DeliveryOptions = EVERYTHING
    ) -> None:
        self.options = options
        self._topic = topic
        self._reply_bytes = _STEADY_REPLY_BYTES if options.slow == "block" else _MAX_REPLY_BYTES
        self._publishers = publishers
        self._subscriber = subscriber
        self._acknowledged = [-1] * len(publishers)
        self._failures = [0] * len(publishers)
        self._polls: dict[Any, int] = {}
        self._is_closed = threading.Event()
        self.offers: list[SocketOffer | None] = []

    def attach(self) -> None:
        """Connect to every partition, and wait until that is done."""
        import ray

        self.offers = []
        calls = [publisher.attach.remote(self._subscriber, self.options) for publisher in self._publishers]
        ready, _ = ray.wait(calls, num_returns=len(calls), timeout=_ATTACH_TIMEOUT_S)
        for partition, call in enumerate(calls):
            if call not in ready:
                text = f"{self._where(partition)}: the publisher has not answered for {_ATTACH_TIMEOUT_S:g} s"
                raise DeliveryError(text, topic=self._topic, partition=partition)
            try:
                self.offers.append(ray.get(call))
            except ray.exceptions.RayError as error:
                raise self._lost(partition, error) from error

    def attach_anew(self) -> None:
        """Connect under another name; who had this one leaves."""
        for partition in range(len(self._publishers)):
            self.detach(partition)
        self._subscriber += "+"
        self.attach()

    def read(self, wanted: Collection[int], timeout_s: float = WAIT_S) -> list[Fetched]:
        """Wait for the reply of a poll that is out; the next poll goes out before this returns."""
        import ray

        if self._is_closed.is_set():
            return []
        for partition in set(wanted).difference(self._polls.values()):
            self._poll(partition)
        # The order of the dict is that of sending, so no partition is read twice while another one waits.
        ready, _ = ray.wait(list(self._polls), num_returns=1, timeout=timeout_s)
        return [] if self._is_closed.is_set() else [self._reply(call) for call in ready]

    def _poll(self, partition: int) -> None:
        poll = self._publishers[partition].poll
        call = poll.remote(self._subscriber, self._acknowledged[partition], self._reply_bytes, WAIT_S)
        self._polls[call] = partition

    def _reply(self, call: Any) -> Fetched:
        import ray

        partition = self._polls.pop(call)
        messages: list[Numbered] = []
        try:
            messages = ray.get(call)
        except ray.exceptions.ActorUnavailableError as error:
            # It may only be out of reach for a moment, and asking again is safe: nothing was acknowledged.
            self._failures[partition] += 1
            if self._failures[partition] >= _ATTEMPTS:
                raise self._lost(partition, error) from error
            self._is_closed.wait(_RETRY_DELAY_S)
            return Fetched(partition, [])
        except ray.exceptions.RayError as error:
            raise self._lost(partition, error) from error
        self._failures[partition] = 0
        if messages:
            self._acknowledged[partition] = messages[-1].sequence
        if not messages or not isinstance(messages[-1].message, PartitionEnded | Failed | Disconnected):
            self._poll(partition)
        return Fetched(partition, messages)

    def detach(self, partition: int) -> None:
        """Let go of one partition; the publisher takes it as the last acknowledgement."""
        # The cluster may be gone by now, or even be another one: then there is nothing to let go of.
        with contextlib.suppress(Exception):
            self._publishers[partition].detach.options(num_returns=0).remote(self._subscriber)

    def close(self) -> None:
        """Let go of every partition. The publishers answer the polls that are out, which wakes whoever reads."""
        import ray

        was_closed = self._is_closed.is_set()
        self._is_closed.set()
        if not was_closed and ray.is_initialized():
            for partition in range(len(self._publishers)):
                self.detach(partition)

    def why_broken(self, partition: int) -> PublisherLost:
        """Return what to raise when a publisher's connection has ended before its last message."""
        import ray

        try:
            ray.get(self._publishers[partition].ping.remote(), timeout=_PING_TIMEOUT_S)
        except ray.exceptions.RayError as error:
            return self._lost(partition, error)
        text = f"{self._where(partition)}: the publisher has closed the connection"
        return PublisherLost(text, topic=self._topic, partition=partition)

    def _where(self, partition: int) -> str:
        return f"topic {self._topic!r}, partition {partition}"

    def _lost(self, partition: int, error: Exception) -> PublisherLost:
        text = f"{self._where(partition)}: the publisher is dead or broken: {error}"
        return PublisherLost(text, topic=self._topic, partition=partition)
