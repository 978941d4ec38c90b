"""A live view of a topic: what its consumer sees, and how long it waits for that."""

import asyncio
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tidewheel.progress import Antichain, ProtocolError, Time, TimeDomain
from tidewheel.pubsub.catalog import TopicInfo
from tidewheel.pubsub.epoch import Epoch, table_of
from tidewheel.pubsub.epoch_assembler import EpochAssembler
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.events import Event
from tidewheel.pubsub.subscriber import Subscriber, SubscriberStatistics
from tidewheel.pubsub.topic_reader import WAIT_S, Fetched, LocalTopicReader, TopicReader
from tidewheel.pubsub.topic_schema import TopicSchema
from tidewheel.pubsub.wire import PartitionEnded

if TYPE_CHECKING:
    from typing import Self


class Subscription:
    """A live view of a topic: an iterator over `Batch`, `Frontier`, `Dropped`, `End` events, also with ``async for``.

    It ends when the topic ends. If the topic fails, or a publisher dies, or this subscriber is cut off, iteration
    raises, after all that came before. One thread, or one task of asyncio, reads; `close` may be called from another.

    What has not been read waits at the publishers, within their capacity. Between nodes they give up a subscriber that
    has not read for a minute.

    Args:
        info: the topic.
        reader: connected to it.
        atomic: whether to hold back epochs of which a part may have been missed.
        may_drop: whether publishers may leave out epochs.
        expected: what batches have to be, where the publishers do not see to that; None for anything.
    """

    def __init__(
        self,
        info: TopicInfo,
        reader: TopicReader,
        *,
        atomic: bool = True,
        may_drop: bool = False,
        expected: TopicSchema | None = None,
    ) -> None:
        self._info = info
        self._reader = reader
        self._subscriber = Subscriber(
            info.domain, len(info.partitions), atomic=atomic, may_drop=may_drop, topic=info.name, expected=expected
        )
        self._assembler = EpochAssembler(info.domain)
        self._events: deque[Event] = deque()
        self._complete: deque[Epoch] = deque()
        self._error: Exception | None = None
        self._is_closed = False
        self._executor: ThreadPoolExecutor | None = None
        self._reading: Future[None] | None = None
        # Whoever drops a subscription without closing it should not keep the publishers waiting for it.
        self._release = weakref.finalize(self, reader.close)

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._info.name

    @property
    def domain(self) -> TimeDomain:
        """The order of the topic's times."""
        return self._info.domain

    @property
    def is_local(self) -> bool:
        """Whether a job of this process publishes the topic, one that runs when it is read from."""
        return isinstance(self._reader, LocalTopicReader)

    @property
    def frontier(self) -> Antichain:
        """The lower bound on the times that can still come from the publishers."""
        return self._subscriber.frontier

    def statistics(self) -> SubscriberStatistics:
        """Return counts of what happened so far."""
        return self._subscriber.statistics()

    def close(self) -> None:
        """Leave the topic; an iteration under way ends. Called again, it does nothing."""
        self._is_closed = True
        self._release()
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    # ------------------------------------------------------------------ events

    def __iter__(self) -> "Self":
        return self

    def __next__(self) -> Event:
        """Return the next event; waits for it."""
        while self._expects_event():
            self._read(WAIT_S)
        if not self._events:
            raise StopIteration
        return self._events.popleft()

    def __aiter__(self) -> "Self":
        return self

    async def __anext__(self) -> Event:
        """Return the next event; a task that is cancelled while it waits loses nothing."""
        while self._expects_event():
            await self._read_async()
        if not self._events:
            raise StopAsyncIteration
        return self._events.popleft()

    def take(self, timeout: float = 0.0) -> list[Event]:
        """Return the events that are there, or come within ``timeout`` seconds, as soon as there are any.

        Raises what iterating raises, after the events that came before. `is_over` tells whether none will come.
        """
        deadline_s = time.monotonic() + timeout
        while self._expects_event():
            left_s = max(0.0, deadline_s - time.monotonic())
            self._read(min(left_s, WAIT_S))
            if not left_s:
                break
        events = list(self._events)
        self._events.clear()
        return events

    @property
    def is_over(self) -> bool:
        """Whether the topic has ended, or this was closed, and every event has been taken."""
        return not self._events and self._error is None and (self._is_closed or self._subscriber.is_ended)

    # ------------------------------------------------------------------ whole epochs

    def epochs(self, timeout: float | None = None) -> "Epochs":
        """Iterate, also with ``async for``, over whole epochs, each once it is complete, none before an earlier one.

        Do not mix it with iterating over events: each takes what the other then does not see. An iterator may be
        abandoned and another one begun; nothing is lost between them.

        Args:
            timeout: how long to wait for each epoch, in seconds; None waits as long as the topic lives.

        Raises:
            TimeoutError: no epoch was complete in time; the iterator may be asked again.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("live")
        >>> _ = flow.input("numbers", int).publish("numbers by epoch")
        >>> with tw.run(flow, engine="local") as job, tw.subscribe("numbers by epoch") as topic:
        ...     with job.input("numbers") as numbers:
        ...         numbers.send([1, 2])
        ...     for epoch in topic.epochs(timeout=10):
        ...         print(epoch.time, epoch.records)
        0 [1, 2]
        """
        return Epochs(self, timeout)

    def _next_epoch(self, timeout: float | None) -> Epoch | None:
        """Return the next epoch, None at the end."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while not self._complete:
            if self._expects_event():
                left_s = _left_s(deadline_s)
                self._read(left_s)
                if not left_s and not self._events:
                    raise self._too_late(timeout)
            elif not self._events:
                return None
            self._assemble()
        return self._complete.popleft()

    async def _next_epoch_async(self, wait_s: float | None) -> Epoch | None:
        deadline_s = None if wait_s is None else time.monotonic() + wait_s
        while not self._complete:
            if self._expects_event():
                try:
                    async with asyncio.timeout(None if deadline_s is None else max(0.0, deadline_s - time.monotonic())):
                        await self._read_async()
                except TimeoutError:
                    if not self._events:
                        raise self._too_late(wait_s) from None
            elif not self._events:
                return None
            self._assemble()
        return self._complete.popleft()

    def _assemble(self) -> None:
        while self._events:
            self._complete.extend(self._assembler.receive(self._events.popleft()))

    def _too_late(self, timeout: float | None) -> TimeoutError:
        return TimeoutError(
            f"topic {self.topic!r}: no epoch was complete within {timeout} s; what can still come is at or after "
            f"{sorted(map(repr, self.frontier)) or 'no time'}"
        )

    def to_arrow(self, until: Time | None = None, timeout: float | None = None) -> Any:
        """Return what has come so far, all whole epochs that have not been read yet, as one ``pyarrow.Table``.

        Epochs may be of Arrow, or of records that are dicts. Without any the table is empty. Do not mix it with
        iterating over events.

        Args:
            until: wait until this epoch is complete; None waits for nothing.
            timeout: in seconds; None waits as long as the topic lives.

        Raises:
            TimeoutError: the epoch was not complete in time; nothing is lost, and this may be called again.
            DeliveryError: the topic has failed, or its records make no table.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("live")
        >>> _ = flow.input("cities").publish("cities by now")
        >>> with tw.run(flow, engine="local") as job, tw.subscribe("cities by now") as topic:
        ...     with job.input("cities") as cities:
        ...         cities.send([{"city": "Oslo"}, {"city": "Rome"}])
        ...     topic.to_arrow(until=0).column("city").to_pylist()
        ['Oslo', 'Rome']
        """
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while self._expects_more_for(until):
            left_s = 0.0 if until is None else _left_s(deadline_s)
            self._read(left_s)
            if not self._events and until is None:
                break
            if not self._events and not left_s:
                raise self._too_late(timeout)
            self._assemble()
        self._assemble()
        epochs, self._complete = list(self._complete), deque()
        return table_of(self.topic, epochs)

    def to_pandas(self, until: Time | None = None, timeout: float | None = None) -> Any:
        """Return what `to_arrow` returns as a ``pandas.DataFrame``; raises what that raises."""
        return self.to_arrow(until, timeout).to_pandas()

    def _expects_more_for(self, until: Time | None) -> bool:
        if self._events:
            self._assemble()
        if until is not None and not self.frontier.less_equal(until):
            return False
        return self._expects_event()

    # ------------------------------------------------------------------ reading

    def _expects_event(self) -> bool:
        """Tell whether to read for the next event; raise what ended this once there is none left."""
        if self._events or self._is_closed:
            return False
        if self._error is not None:
            raise self._error
        return not self._subscriber.is_ended

    def _read(self, timeout_s: float) -> None:
        """Read what there is, or comes within ``timeout_s`` seconds."""
        try:
            found = self._reader.read(self._subscriber.wanted, timeout_s)
        except PublisherLost as error:
            self._fail(error)
            return
        try:
            for fetched in found:
                self._take_in(fetched)
        except (DeliveryError, ProtocolError) as error:
            self._fail(error)

    async def _read_async(self) -> None:
        """Read on a thread of this subscription's own; one that is under way goes on though its task is cancelled."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, f"tidewheel-{self.topic}")
        if self._reading is None or self._reading.done():
            self._reading = self._executor.submit(self._read, WAIT_S)
        await asyncio.shield(asyncio.wrap_future(self._reading))

    def _take_in(self, fetched: Fetched) -> None:
        for numbered in fetched.messages:
            self._events.extend(self._subscriber.receive(fetched.partition, numbered))
            if isinstance(numbered.message, PartitionEnded):
                self._reader.detach(fetched.partition)

    def _fail(self, error: Exception) -> None:
        """Let go of the topic; ``error`` is raised after the events that came before it."""
        self._error = error
        self._reader.close()

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Epochs(Iterator[Epoch], AsyncIterator[Epoch]):
    """The whole epochs of a subscription, one after the other.

    Args:
        subscription: where they come from.
        timeout: how long to wait for each, in seconds; None for as long as the topic lives.
    """

    def __init__(self, subscription: Subscription, timeout: float | None) -> None:
        self._subscription = subscription
        self._timeout = timeout

    def __next__(self) -> Epoch:
        epoch = self._subscription._next_epoch(self._timeout)
        if epoch is None:
            raise StopIteration
        return epoch

    async def __anext__(self) -> Epoch:
        epoch = await self._subscription._next_epoch_async(self._timeout)
        if epoch is None:
            raise StopAsyncIteration
        return epoch


def _left_s(deadline_s: float | None) -> float:
    """Return how long to wait at a time."""
    return WAIT_S if deadline_s is None else min(WAIT_S, max(0.0, deadline_s - time.monotonic()))
