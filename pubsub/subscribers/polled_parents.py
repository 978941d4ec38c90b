"""The parents of one reader, and the thread that polls them and searches for lost ones."""

import os
import select
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from math import ceil, inf
from typing import Any, Final, Protocol, TypeAlias

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_messages import Upstream
from tidewheel.pubsub.messages.frames import Join
from tidewheel.pubsub.protocol.fetched import Fetched
from tidewheel.pubsub.subscribers.parents import Find, KeptParent
from tidewheel.transport.eager_poll import EagerPoll

_READ_ALL_S: Final = 1.0
"""The longest time between two looks at a silent parent, in seconds, however much the other parents send."""

Partitions: TypeAlias = tuple[int, ...]
Finds: TypeAlias = Mapping[Partitions, Find]
"""The functions that find parents, by the partitions that a parent serves."""


class Listener(Protocol):
    """Turns the messages of parents into a subscriber's messages."""

    def hear(self, partitions: Partitions, told: Sequence[Any], now_s: float, /) -> bool:
        """Receive a parent's messages for some partitions, in order; return whether they are the parent's last.

        Raises:
            DeliveryError, ProtocolError: the topic cannot be read any more.
        """

    def look(self, kept: KeptParent, now_s: float, /) -> None:
        """Call `KeptParent.look`, to check for a loss and to search; raise as it does."""

    def take(self) -> list[Fetched]:
        """Return the messages for the subscriber, in order; send messages that are due."""

    def due_s(self) -> float:
        """Return the time at which something must be sent even if no message arrives; infinite if there is none."""


class PolledParents:
    """The parents of one reader. One thread at a time reads, while it holds ``turn``; any thread may ring or release.

    Args:
        within_s: how long a parent may be away, in seconds.
        is_eager: whether the reading thread polls for a moment before it sleeps.
    """

    def __init__(
        self,
        topic: str,
        greeting: Join,
        finds: Finds,
        listener: Listener,
        within_s: float = 0.0,
        *,
        is_eager: bool = True,
    ) -> None:
        self._topic = topic
        self._greeting = greeting
        self._listener = listener
        self._within_s = within_s
        self._is_eager = is_eager
        self.turn = threading.Lock()
        self.is_released = self.is_closed = False
        self._lost: Exception | None = None
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._bell_lock = threading.Lock()
        self._poll: EagerPoll | None = None
        self._polled: dict[int, KeptParent] = {}
        self._look_at_s = self._read_all_at_s = 0.0
        self._kept: dict[KeptParent, Partitions] = {}
        self.replace(finds)

    def replace(self, finds: Finds, why_lost: str = "") -> None:
        self._kept = {}
        for partitions, find in finds.items():
            partition = partitions[0] if len(partitions) == 1 else None
            one = KeptParent(self._topic, partition, find, self._greeting, self.ring, self._within_s, why_lost)
            self._kept[one] = partitions

    def need(self, partitions: Collection[int]) -> None:
        """From now on, search for a lost parent only if it serves one of these partitions."""
        for kept, own in self._kept.items():
            kept.is_needed = not set(own).isdisjoint(partitions)

    def attach(self) -> None:
        with self.turn:
            while any(kept.parent is None and kept.is_needed for kept in self._kept):
                self._listen_to_all(self._wait(self._look_at_s))
                self.check()

    def fetch(self, timeout_s: float) -> list[Fetched]:
        """Return the received messages, or wait for some.

        Raises:
            PublisherLost: a publisher has died for good, or has ended too early.
            DeliveryError: the next messages are gone, or another reader has taken over this subscription.
        """
        with self.turn:
            deadline_s, is_late = time.monotonic() + timeout_s, False
            while not self.is_released:
                found = self._listener.take()
                if not found and self._lost is not None:
                    self._listen_to_all(self._wait(0.0))  # other parents may have sent something before
                    found = self._listener.take()
                if found:
                    return found
                self.check()
                if is_late:
                    break
                self._listen_to_all(self._wait(min(deadline_s, self.due_s())))
                is_late = time.monotonic() >= deadline_s
        return []

    def due_s(self) -> float:
        return min(self._look_at_s, self._listener.due_s())

    @property
    def kept(self) -> list[KeptParent]:
        return list(self._kept)

    def check(self) -> None:
        if self._lost is not None:
            raise self._lost

    def listen(self) -> None:
        """Receive the messages that have arrived, without waiting; the caller holds ``turn``."""
        self._listen_to_all(())

    def _wait(self, until_s: float) -> list[KeptParent]:
        poll = self._poll or self._new_poll()
        wait_s = until_s - time.monotonic()
        ready = poll.poll(None if wait_s == inf else max(0, ceil(wait_s * 1000)))
        if not any(descriptor == self._bell for descriptor, _ in ready):
            return [self._polled[descriptor] for descriptor, _ in ready]
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        return self.kept

    def _new_poll(self) -> EagerPoll:
        poll = EagerPoll() if self._is_eager else EagerPoll(0.0)
        poll.register(self._bell)
        ways = {kept: kept.parent for kept in self._kept if kept.parent is not None}
        for way in ways.values():
            poll.register(way.fileno(), select.POLLIN | (select.POLLOUT if way.is_waiting else 0))
        self._polled = {way.fileno(): kept for kept, way in ways.items()}
        self._poll = None if any(way.is_waiting for way in ways.values()) else poll
        return poll

    def _listen_to_all(self, ready: Iterable[KeptParent]) -> None:
        now_s = time.monotonic()
        if not ready or now_s >= min(self._look_at_s, self._read_all_at_s):
            # If nothing arrives for long, the publisher may need another call, or may be lost.
            self._read_all_at_s = now_s + _READ_ALL_S
            ready = self.kept
        for kept in ready:
            try:
                self._listen_to(kept, now_s)
            except (DeliveryError, ProtocolError) as error:
                self._lost = self._lost or error

    def _listen_to(self, kept: KeptParent, now_s: float) -> None:
        before = kept.parent
        told = [] if before is None else before.read()
        if told and self._listener.hear(self._kept[kept], told, now_s):
            kept.end()
            self._poll = None
        self._listener.look(kept, now_s)
        if before is None or before is not kept.parent:
            self._poll = None
            self._look_at_s = min((one.look_at_s for one in self._kept), default=inf)

    def say(self, messages: Sequence[Upstream]) -> None:
        """Send messages to the parents of their partitions, unless these partitions have ended."""
        if messages:
            parent_of = {number: kept for kept, numbers in self._kept.items() for number in numbers}
            self._poll = None  # a parent may not take all of the messages
            for message in messages:
                if message.pubend in parent_of:
                    parent_of[message.pubend].say([message])

    def ring(self) -> None:
        with self._bell_lock:
            if not self.is_closed:
                os.eventfd_write(self._bell, 1)

    def stop(self) -> None:
        """Let the reading thread return, and prevent further reads, without waiting."""
        self.is_released = True
        self.ring()

    def release(self) -> None:
        self.stop()
        with self.turn, self._bell_lock:
            if self.is_closed:
                return
            self.is_closed = True
            for kept in self._kept:
                kept.close()
            os.close(self._bell)
