"""Reads a topic with exactly-once delivery: what is lost on the way is asked for, whoever dies meanwhile.

One thread reads, and only while it does so anything is asked for: what comes meanwhile waits at the parents, and in the
log.
"""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from math import ceil
from typing import Final

from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.exactly_once.messages import Begun, Downstream, KnowledgeMessage, Rejected, Stranger, Upstream
from tidewheel.pubsub.exactly_once.subend_stream import SubendStream
from tidewheel.pubsub.subscribers.kept_parent import KeptParent
from tidewheel.pubsub.subscribers.parents import ParentGone
from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls
from tidewheel.pubsub.subscribers.topic_reader import WAIT_S, Fetched, TopicReader

TOLD_EVERY_S: Final = 0.01
"""While there is something to read, what is acknowledged is told upstream so often at most, in seconds."""
TOLD_WITHIN_S: Final = 0.1
"""What is acknowledged is told upstream within so many seconds, if the consumer goes on with something."""


class SubendReader(TopicReader):
    """Reads for one subscription.

    Args:
        reader: its id.
        calls: its calls to the pubends, which have taken it on.
        begun: where it begins at each of them.
        stream: its messages.
        parents_of: returns the parents that tell of all partitions, each with those it tells of; they are connected
            here. It gets what a parent is to call when there is something to do, and what tells whether there is more
            to come of a partition.
        tells_at_once: whether what is acknowledged is told upstream at once, as the consumer has said so by hand.
    """

    is_durable = True

    def __init__(
        self,
        reader: str,
        calls: PubendCalls,
        begun: Sequence[Begun],
        stream: SubendStream,
        parents_of: Callable[[Callable[[], None], Callable[[int], bool]], Mapping[KeptParent, Collection[int]]],
        *,
        tells_at_once: bool = False,
    ) -> None:
        self.began = [one.first_frontiers for one in begun]
        self._reader = reader
        self._calls = calls
        self._stream = stream
        self._live = set(range(len(begun)))
        self._tells_at_once = tells_at_once
        self._done: deque[Sequence[tuple[int, int]]] = deque()
        self._error: Exception | None = None
        self._told_s = 0.0
        self._reading = threading.Lock()
        self._is_closed = self._has_left = False
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._bell_lock = threading.Lock()
        self._is_bell_gone = False
        self._parents = dict(parents_of(self._ring, self._live.__contains__))
        self._parent_of = {number: parent for parent, numbers in self._parents.items() for number in numbers}

    def attach(self) -> None:
        """Connect to the parents."""
        for parent in self._parents:
            parent.connect()

    # ------------------------------------------------------------------ reading

    def read(self, wanted: Collection[int], timeout_s: float = WAIT_S) -> list[Fetched]:
        """Return what has come, in order, of any partition; wait for something if there is nothing.

        Raises:
            PublisherLost: a publisher has died for good, or has ended the topic before its time.
            DeliveryError: what comes next is no longer kept, or another reader has taken over this subscription.
        """
        try:
            return self._read(time.monotonic() + timeout_s)
        finally:
            if self._tells_at_once:
                self._tell_acknowledged()

    def _read(self, deadline_s: float) -> list[Fetched]:
        with self._reading:
            while not self._is_closed:
                now_s = time.monotonic()
                self._say(self._stream.ask(now_s))
                if now_s - self._told_s >= TOLD_EVERY_S:
                    self._tell(now_s)
                found = self._stream.fetch()
                if found:
                    return found
                self._tell(now_s)
                if self._error is not None:
                    raise self._error
                if self._wait(deadline_s, now_s):
                    self._listen()
                elif now_s >= deadline_s:
                    break
        return []

    def _tell(self, now_s: float) -> None:
        """Tell parents what is acknowledged."""
        self._take_acknowledged()
        self._say(self._stream.acks())
        self._told_s = now_s

    def _take_acknowledged(self) -> None:
        while self._done:
            for partition, number in self._done.popleft():
                self._stream.acknowledge(partition, number)

    def _say(self, messages: Sequence[Upstream]) -> None:
        for message in messages:
            self._parent_of[message.pubend].say([message])

    def _wait(self, deadline_s: float, now_s: float) -> bool:
        """Wait until there is something to read or to do; tell whether there is."""
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        until_s = min(deadline_s, self._stream.ask_at_s())
        for parent in self._parents:
            if parent.fileno is not None:
                poll.register(parent.fileno, select.POLLIN | (select.POLLOUT if parent.is_waiting else 0))
            if parent.look_at_s is not None:
                until_s = min(until_s, parent.look_at_s)
        ready = poll.poll(max(0, ceil((until_s - now_s) * 1000)))
        if any(descriptor == self._bell for descriptor, _ in ready):
            with suppress(BlockingIOError):
                os.eventfd_read(self._bell)
        return bool(ready) or until_s < deadline_s

    def _listen(self) -> None:
        """Take in what has come, and look after parents that are lost."""
        now_s = time.monotonic()
        try:
            for message in self._messages():
                self._take_in(message, now_s)
            for parent in self._parents:
                if parent.look(now_s):
                    self._stream.reconnected()
        except (DeliveryError, ProtocolError) as error:
            self._error = self._error or error

    def _messages(self) -> Iterator[Downstream]:
        for parent in self._parents:
            yield from parent.read()

    def _take_in(self, message: Downstream, now_s: float) -> None:
        match message:
            case Rejected(pubend, reason):
                where = self._calls.where(pubend)
                raise PublisherLost(f"{where}: the publisher has disconnected this subscriber: {reason}")
            case Stranger(pubend, reader):
                if reader == self._reader:
                    self._subscribe_again(pubend)
            case _:
                self._learn(message, now_s)

    def _learn(self, message: KnowledgeMessage, now_s: float) -> None:
        try:
            self._stream.receive(message, now_s)
        except DeliveryError:
            # If it is since another reader has acknowledged what is gone, that is what is to be said.
            self._subscribe_again(message.pubend)
            raise

    def _subscribe_again(self, pubend: int) -> None:
        """Have a pubend take this reader on again; one that is just being started says so again if it has to."""
        try:
            self._calls.subscribe_again(pubend, self._stream.acknowledged(pubend).prefix_end)
        except ParentGone as error:
            if error.is_for_good:
                raise
            return
        self._stream.reconnected()

    # ------------------------------------------------------------------ the consumer

    def acknowledge(self, batches: Sequence[tuple[int, int]]) -> None:
        """Take note that nobody needs some batches any more, and have pubends told soon; any thread may call this.

        They are told together: who goes on later gets all of these batches again, or none.
        """
        self._done.append(batches)
        now_s = time.monotonic()
        if not self._tells_at_once and now_s - self._told_s < TOLD_WITHIN_S:
            return
        self._tell_acknowledged()
        if self._done:
            self._ring()  # another thread reads: it tells

    def _tell_acknowledged(self) -> None:
        """Tell parents what is acknowledged, unless another thread reads, and does so."""
        while self._done and self._reading.acquire(blocking=False):
            try:
                if self._is_closed:
                    return
                self._tell(time.monotonic())
            finally:
                self._reading.release()

    def leave(self) -> None:
        """Have noted what was acknowledged. Called again, it does nothing."""
        self._is_closed = True
        self._ring()
        with self._reading:
            if self._has_left:
                return
            self._has_left = True
            self._take_acknowledged()
        over = [number for number in self._parent_of if number not in self._live and self._stream.is_done(number)]
        self._calls.leave([self._stream.acknowledged(number).ranges() for number in sorted(self._parent_of)], over)

    def detach(self, partition: int) -> None:
        """Take note that a partition has ended: its parent is needed no more, unless others are not over.

        In total order its silence is needed until all of them have ended: what they still have may come only after it.
        """
        if self._stream.is_total:
            return
        self._live.discard(partition)
        parent = self._parent_of[partition]
        parent.is_needed = not self._live.isdisjoint(self._parents[parent])

    def is_live(self, partition: int) -> bool:
        """Tell whether there is more to come of a partition."""
        return partition in self._live

    def close(self) -> None:
        """Let go of every partition, and wake whoever reads."""
        self._is_closed = True
        self._ring()
        with self._reading, self._bell_lock:
            if self._is_bell_gone:
                return
            self._is_bell_gone = True
            for parent in self._parents:
                parent.close()
            os.close(self._bell)

    def _ring(self) -> None:
        """Have the thread that reads look again."""
        with self._bell_lock:
            if not self._is_bell_gone:
                os.eventfd_write(self._bell, 1)
