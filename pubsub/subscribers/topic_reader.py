"""The reader of a topic for one subscription: messages from its publishers in, events out.

`TopicReader` has what all readers have. `ActorReader` reads from actors: from the publishers of a topic without a log
as it is, and from those of a topic with one as `SubendReader`. `LocalTopicReader` reads from a job of this process.
"""

import asyncio
import os
import select
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from math import ceil, inf
from typing import Any, Final, TypeAlias

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.messages.frames import Join
from tidewheel.pubsub.messages.wire import InitialFrontierSnapshot, LastMessage, Numbered, PartitionEnded
from tidewheel.pubsub.protocol.fetched import Fetched
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.subscribers.parents import Find, KeptParent
from tidewheel.transport.eager_poll import EagerPoll

WAIT_S: Final = 5.0
"""A reader waits so long for news before it returns without any, in seconds."""

_READ_ALL_S = 1.0
"""However much comes from others, a parent that tells nothing is looked at so often, in seconds."""

Finds: TypeAlias = Mapping[tuple[int, ...], Find]
"""For the partitions that a parent tells of, how to find it."""


class TopicReader(ABC):
    """Reads for one subscription. One thread or task reads at a time; any thread may close.

    Args:
        topic: its name.

    Attributes:
        is_durable: whether messages are kept until they are acknowledged.
        began: both frontiers of each partition where the subscription once began, if it continues; otherwise None.
        subscriber: makes events of messages; the subscription sets it before it reads.
        events: the events that were read and not taken.
        error: the end of the subscription; to be raised after the events that came before it.
        is_closed: whether `close` was called.
        fetching: the outcome of the read that is under way on a thread, for tasks of asyncio; None if there is none.
    """

    is_durable: bool = False
    began: Sequence[InitialFrontierSnapshot] | None = None
    subscriber: Subscriber

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._turn = threading.Lock()
        self.events: deque[Any] = deque()
        self.error: Exception | None = None
        self.is_closed = False
        self._thread: ThreadPoolExecutor | None = None
        self.fetching: Future[list[Fetched] | Exception] | None = None

    # ------------------------------------------------------------------ the subscription

    def read(self, timeout_s: float) -> None:
        """Read the messages that are there, or that come within ``timeout_s`` seconds.

        Raises:
            DeliveryError: two threads read, or the local job that publishes is idle.
        """
        if not self._turn.acquire(blocking=False):
            raise DeliveryError(
                f"two threads read one subscription to topic {self._topic!r}: let each have one of its own",
                topic=self._topic,
            )
        try:
            fetching = self.fetching
            if fetching is None:
                self._receive(self._outcome(self.fetch, timeout_s))
            elif wait([fetching], timeout_s).done:
                self.fetching = None
                self._receive(fetching.result())
        finally:
            self._turn.release()

    async def read_async(self, owner: object) -> None:
        """Read on a thread of this reader; a read that is under way goes on though its task is cancelled.

        Args:
            owner: releases this reader as it is collected, and is not collected during the read. Otherwise the
                collector may run on that thread, which would wait for its own lock.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, f"tidewheel-{self._topic}")
        if self.is_closed:
            self._thread.shutdown(wait=False)
        try:
            fetching = self.fetching or self._thread.submit(self._outcome, self.fetch_elsewhere, WAIT_S, owner)
        except RuntimeError:  # another thread has closed it just now
            return
        self.fetching = fetching
        await asyncio.wait([asyncio.wrap_future(fetching)])
        if self.fetching is fetching:  # no other task has received that
            self.fetching = None
            self._receive(fetching.result())

    @staticmethod
    def _outcome(
        fetch: Callable[[float], list[Fetched]], timeout_s: float, owner: object = None
    ) -> list[Fetched] | Exception:
        """Return what ``fetch`` returns or raises, to be received on the thread that reads; ``owner`` lives so long."""
        try:
            return fetch(timeout_s)
        except Exception as error:  # noqa: BLE001 - the receiver raises it
            return error

    def _receive(self, found: list[Fetched] | Exception) -> None:
        """Make events of messages, or record why the topic is lost."""
        try:
            if isinstance(found, Exception):
                raise found
            for fetched in found:
                for numbered in fetched.messages:
                    self._receive_message(fetched.partition, numbered)
        except (PublisherLost, ProtocolError) as error:
            self._fail(error)
        except DeliveryError as error:
            if error is found:
                raise  # there may still come messages
            self._fail(error)
        if self.subscriber.is_ended and not self.is_durable:
            self.release()

    def _receive_message(self, partition: int, numbered: Numbered) -> None:
        self.events.extend(self.subscriber.receive(partition, numbered))
        if self.subscriber.unseen:
            self.acknowledge(self.subscriber.unseen)
            self.subscriber.unseen = []
        if isinstance(numbered.message, PartitionEnded):
            self.detach(partition)

    def _fail(self, error: Exception) -> None:
        self.error = error
        self.release()

    def close(self) -> None:
        """Leave the topic; a read under way ends. Idempotent."""
        self.is_closed = True
        self.leave()
        self.release()

    # ------------------------------------------------------------------ the publishers

    @abstractmethod
    def fetch(self, timeout_s: float) -> list[Fetched]:
        """Return the next messages as soon as there are any; none after ``timeout_s`` seconds, or after `release`.

        Raises:
            PublisherLost: a publisher is dead.
            DeliveryError: no message will ever come; not where ``timeout_s`` is 0.
        """

    def fetch_elsewhere(self, timeout_s: float) -> list[Fetched]:
        """Do as `fetch` does, on a thread for which nothing waits: other threads may send what it waits for."""
        return self.fetch(timeout_s)

    def acknowledge(self, batches: Sequence[tuple[int, int]]) -> None:  # noqa: B027 - most keep nothing
        """Record that no one needs some batches any more, each a partition and its number there; from any thread."""

    def check_end(self) -> None:  # noqa: B027 - most keep nothing
        """Raise PublisherLost if the topic has ended for this reader, but its acknowledgements are lost."""

    def leave(self) -> None:  # noqa: B027 - most keep nothing
        """Have the acknowledgements noted; waits some seconds at most. To be called before `release`."""

    def detach(self, partition: int) -> None:  # noqa: B027 - most have let go already
        """Let go of one partition, whose last message was read; does not wait."""

    def release(self) -> None:
        """Let go of every partition, and wake the thread that reads; does not wait. Idempotent."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)


class ActorReader(TopicReader):
    """Reads from the actors of a topic, its parents. Unread messages wait in the sockets, and at the publishers.

    Args:
        topic: its name.
        greeting: the first message to each parent.
        finds: for the partitions that a parent tells of, how to find it.
        within_s: a parent may be away for so long, in seconds.
    """

    def __init__(self, topic: str, greeting: Join, finds: Finds, within_s: float = 0.0) -> None:
        super().__init__(topic)
        self._greeting = greeting
        self._within_s = within_s
        self._reading = threading.Lock()
        self._is_released = self._is_bell_gone = False
        self._lost: Exception | None = None
        self._found: list[Fetched] = []
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._bell_lock = threading.Lock()
        self._poll: EagerPoll | None = None
        self._polled: dict[int, KeptParent] = {}
        self._look_at_s = self._read_all_at_s = 0.0
        self._parents = self._kept(finds)

    def _kept(self, finds: Finds, why_lost: str = "") -> dict[KeptParent, tuple[int, ...]]:
        """Return a parent for each of these, with its partitions."""
        kept: dict[KeptParent, tuple[int, ...]] = {}
        for partitions, find in finds.items():
            partition = partitions[0] if len(partitions) == 1 else None
            one = KeptParent(self._topic, partition, find, self._greeting, self._ring, self._within_s, why_lost)
            kept[one] = partitions
        return kept

    def attach(self) -> None:
        """Connect to every parent; otherwise raise DeliveryError, and let go of all of them."""
        try:
            with self._reading:
                while any(kept.parent is None and kept.is_needed for kept in self._parents):
                    self._listen(self._wait(self._look_at_s))
                    self._check()
        except BaseException:
            self.leave()
            self.release()
            raise

    # ------------------------------------------------------------------ reading

    def fetch(self, timeout_s: float) -> list[Fetched]:
        """Return the messages that have come; wait for some if there are none.

        Raises:
            PublisherLost: a publisher has died for good, or has ended the topic before its time.
            DeliveryError: the next messages are no longer kept, or another reader has taken over this subscription.
        """
        with self._reading:
            deadline_s, is_late = time.monotonic() + timeout_s, False
            while not self._is_released:
                found = self._take()
                if not found and self._lost is not None:
                    self._listen(self._wait(0.0))  # other parents may have told something before
                    found = self._take()
                if found:
                    return found
                self._check()
                if is_late:
                    break
                self._listen(self._wait(min(deadline_s, self._due_s())))
                is_late = time.monotonic() >= deadline_s
        return []

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _take(self) -> list[Fetched]:
        """Return the messages for the subscriber, in order."""
        found, self._found = self._found, []
        return found

    def _due_s(self) -> float:
        """Return when there is something to do if no message comes."""
        return self._look_at_s

    def _wait(self, until_s: float) -> list[KeptParent]:
        """Wait for messages, or until some time; return the parents with messages."""
        poll = self._poll or self._new_poll()
        wait_s = until_s - time.monotonic()
        ready = poll.poll(None if wait_s == inf else max(0, ceil(wait_s * 1000)))
        if not any(descriptor == self._bell for descriptor, _ in ready):
            return [self._polled[descriptor] for descriptor, _ in ready]
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        return list(self._parents)

    def _new_poll(self) -> EagerPoll:
        """Return what polls the parents; it is kept unless one of them has not taken all that was said to it."""
        poll = EagerPoll(0.0) if self.is_durable else EagerPoll()  # the thread of a log needs the core
        poll.register(self._bell)
        ways = {kept: kept.parent for kept in self._parents if kept.parent is not None}
        for way in ways.values():
            poll.register(way.fileno(), select.POLLIN | (select.POLLOUT if way.is_waiting else 0))
        self._polled = {way.fileno(): kept for kept, way in ways.items()}
        self._poll = None if any(way.is_waiting for way in ways.values()) else poll
        return poll

    def _listen(self, ready: Iterable[KeptParent]) -> None:
        """Receive messages of parents, of all of them if none is ready, and look for those that are lost."""
        now_s = time.monotonic()
        if not ready or now_s >= min(self._look_at_s, self._read_all_at_s):
            # Where nothing comes for long, a publisher that is called may have to be called again, or be lost.
            self._read_all_at_s = now_s + _READ_ALL_S
            ready = list(self._parents)
        for kept in ready:
            try:
                self._listen_to(kept, now_s)
            except (DeliveryError, ProtocolError) as error:
                self._lost = self._lost or error

    def _listen_to(self, kept: KeptParent, now_s: float) -> None:
        before = kept.parent
        told = [] if before is None else before.read()
        if told:
            self._hear(kept, told, now_s)
        self._look(kept, now_s)
        if before is None or before is not kept.parent:
            self._poll = None
            self._look_at_s = min((one.look_at_s for one in self._parents), default=inf)

    def _hear(self, kept: KeptParent, told: list[Any], now_s: float) -> None:
        """Receive messages of a parent."""
        self._found.append(Fetched(self._parents[kept][0], told))
        if isinstance(told[-1].message, LastMessage):
            kept.end()
            self._poll = None

    def _look(self, kept: KeptParent, now_s: float) -> None:
        """Look whether a parent is lost, and for another."""
        kept.look(now_s)

    # ------------------------------------------------------------------ going

    def release(self) -> None:
        """Let go of every parent, and wake the thread that reads."""
        self._is_released = True
        super().release()
        self._ring()
        with self._reading, self._bell_lock:
            if self._is_bell_gone:
                return
            self._is_bell_gone = True
            for kept in self._parents:
                kept.close()
            os.close(self._bell)

    def _ring(self) -> None:
        """Have the thread that reads look again."""
        with self._bell_lock:
            if not self._is_bell_gone:
                os.eventfd_write(self._bell, 1)
