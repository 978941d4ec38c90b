"""A live view of a topic: what its consumer sees, and how long it waits for that."""

import asyncio
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.catalog.topic_schema import TopicSchema
from tidewheel.pubsub.messages.events import Batch, Epoch, Event, SubscriberStatistics, SubstreamsEnded, table_of
from tidewheel.pubsub.protocol.epoch_assembler import EpochAssembler
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.subscribers.done_batches import DoneBatches
from tidewheel.pubsub.subscribers.epochs import Epochs
from tidewheel.pubsub.subscribers.event_reader import EventReader
from tidewheel.pubsub.subscribers.subscription_options import Acknowledging
from tidewheel.pubsub.subscribers.topic_reader import WAIT_S, LocalTopicReader, TopicReader

if TYPE_CHECKING:
    from typing import Self

_SO_FAR_S = 1.0

Given = TypeVar("Given", bound=Event | Epoch)


class Subscription:
    """A live view of a topic: an iterator, also with ``async for``, over its events.

    These are `Batch`, `Frontier`, `Dropped`, `End`, and `SubstreamsEnded` where ends of substreams are published.

    It ends when the topic ends. If the topic fails, or a publisher dies, or this subscriber is cut off, iteration
    raises, after all that came before. One thread reads; `close` may be called from another. Several tasks of one event
    loop may read: each event, or epoch, goes to one of them.

    What has not been read waits at the publishers, within their capacity, or in their logs. Between nodes those
    without logs give up a subscriber that has not read for a minute.

    Args:
        info: the topic.
        reader: connected to it.
        atomic: whether to hold back epochs of which a part may have been missed.
        may_drop: whether publishers may leave out epochs.
        expected: what batches have to be, where the publishers do not see to that; None for anything.
        ack: with exactly-once delivery, who says what the consumer is done with.
    """

    def __init__(
        self,
        info: TopicInfo,
        reader: TopicReader,
        *,
        atomic: bool = True,
        may_drop: bool = False,
        expected: TopicSchema | None = None,
        ack: Acknowledging = "auto",
    ) -> None:
        self._info = info
        self._reader = reader
        self._subscriber = Subscriber(
            info.domain,
            len(info.partitions),
            atomic=atomic,
            may_drop=may_drop,
            topic=info.name,
            expected=expected,
            began=reader.began,
        )
        self._done = DoneBatches(info.name, reader.acknowledge if reader.is_durable else None, ack)
        self._assembler = EpochAssembler(info.domain)
        self._complete: deque[Epoch] = deque()
        self._reading = EventReader(info.name, reader, self._subscriber)

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
        """Leave the topic; an iteration under way ends. Called again, it does nothing.

        What was acknowledged stays so: with exactly-once delivery this waits, some seconds at most, until it is noted.
        What was given out last, and not acknowledged, comes again to who goes on with this subscription.
        """
        self._reading.close()

    # ------------------------------------------------------------------ events

    def __iter__(self) -> "Self":
        return self

    def __next__(self) -> Event:
        """Return the next event; waits for it."""
        self._done.settle()
        while self._expects_event():
            self._reading.read(WAIT_S)
        if not self._reading.events:
            raise StopIteration
        return self._give_out(self._reading.events.popleft())

    def __aiter__(self) -> "Self":
        return self

    async def __anext__(self) -> Event:
        """Return the next event; a task that is cancelled while it waits loses nothing.

        A job of this process is run meanwhile, on another thread. While it is idle this waits for what others send.
        """
        self._done.settle()
        while self._expects_event():
            await self._reading.read_async()
        if not self._reading.events:
            raise StopAsyncIteration
        return self._give_out(self._reading.events.popleft())

    def take(self, timeout: float = 0.0) -> list[Event]:
        """Return the events that are there, or come within ``timeout`` seconds, as soon as there are any.

        Raises what iterating raises, after the events that came before. `is_over` tells whether none will come.
        """
        self._done.settle()
        deadline_s = time.monotonic() + timeout
        while self._expects_event():
            left_s = max(0.0, deadline_s - time.monotonic())
            self._reading.read(min(left_s, WAIT_S))
            if not left_s:
                break
        events = list(self._reading.events)
        self._reading.events.clear()
        self._done.hand(events)
        return events

    @property
    def is_over(self) -> bool:
        """Whether the topic has ended, or this was closed, and every event has been taken."""
        return (
            not self._reading.events
            and self._reading.error is None
            and (self._reading.is_closed or self._subscriber.is_ended)
        )

    # ------------------------------------------------------------------ acknowledging

    def acknowledge(self, done: Epoch | Batch | SubstreamsEnded) -> None:
        """Say, with ``ack="manual"``, that an epoch, or one batch of it, need not come again; from any thread.

        Raises:
            DeliveryError: the topic is best effort, or this subscription acknowledges by itself.
        """
        self._done.acknowledge(done)

    def _give_out(self, found: Given) -> Given:
        self._done.hand([found])
        return found

    # ------------------------------------------------------------------ whole epochs

    def epochs(self, timeout: float | None = None) -> "Epochs":
        """Iterate, also with ``async for``, over whole epochs, each once it is complete, none before an earlier one.

        Do not mix it with iterating over events: each takes what the other then does not see. An iterator may be
        abandoned and another one begun; nothing is lost between them.

        Args:
            timeout: how long to wait for each epoch, in seconds; None waits as long as the topic lives. A job of this
                process that is run meanwhile does what it is at.

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
        self._done.settle()
        deadline_s = None if timeout is None else time.monotonic() + timeout
        is_late = False
        while self._expects_epoch():
            if is_late:
                raise self._too_late(timeout)
            left_s = _left_s(deadline_s)
            self._reading.read(left_s)
            is_late = not left_s
        return self._give_out(self._complete.popleft()) if self._complete else None

    async def _next_epoch_async(self, wait_s: float | None) -> Epoch | None:
        """Return the next epoch, None at the end."""
        self._done.settle()
        deadline_s = None if wait_s is None else time.monotonic() + wait_s
        is_late = False
        while self._expects_epoch():
            if is_late:
                raise self._too_late(wait_s)
            try:
                async with asyncio.timeout(None if deadline_s is None else max(0.0, deadline_s - time.monotonic())):
                    await self._reading.read_async()
            except TimeoutError:
                is_late = True
        return self._give_out(self._complete.popleft()) if self._complete else None

    def _expects_epoch(self) -> bool:
        """Tell whether to read for the next epoch; raise what ended this once there is none left."""
        self._assemble()
        return not self._complete and self._expects_event()

    def _assemble(self) -> None:
        while self._reading.events:
            self._complete.extend(self._assembler.receive(self._reading.events.popleft()))

    def _too_late(self, timeout: float | None) -> TimeoutError:
        return TimeoutError(
            f"topic {self.topic!r}: no epoch was complete within {timeout:g} s; what can still come is at or after "
            f"{', '.join(map(repr, self.frontier)) or 'no time'}"
        )

    def to_arrow(self, until: Time | None = None, timeout: float | None = None) -> Any:
        """Return what has come so far, all whole epochs that have not been read yet, as one ``pyarrow.Table``.

        Epochs may be of Arrow, or of records that are dicts; what one of them lacks that others have is null. Without
        any the table is empty. Do not mix it with iterating over events.

        Args:
            until: wait until this epoch is complete; None waits for nothing.
            timeout: in seconds; None waits as long as the topic lives.

        Raises:
            TimeoutError: the epoch was not complete in time; nothing is lost, and this may be called again.
            DeliveryError: the topic has failed, or its records make no table: then `epochs` has them.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("live")
        >>> _ = flow.input("cities").publish("cities by now")
        >>> with tw.run(flow, engine="local") as job, tw.subscribe("cities by now") as topic:
        ...     with job.input("cities") as cities:
        ...         cities.send([{"city": "Oslo"}, {"city": "Rome"}])
        ...     topic.to_arrow(until=0).column("city").to_pylist()
        ['Oslo', 'Rome']
        """
        self._done.settle()
        if until is None:
            self._read_so_far()
        else:
            self._read_until(until, timeout)
        table = table_of(self.topic, list(self._complete))
        self._done.hand(self._complete)
        self._complete.clear()
        return table

    def to_pandas(self, until: Time | None = None, timeout: float | None = None) -> Any:
        """Return what `to_arrow` returns as a ``pandas.DataFrame``; raises what that raises."""
        return self.to_arrow(until, timeout).to_pandas()

    def _read_so_far(self) -> None:
        """Read what is there; where more is there all the time, for a second."""
        ends_s = time.monotonic() + _SO_FAR_S
        self._assemble()
        while self._reading.error is None and self._expects_event() and time.monotonic() < ends_s:
            self._reading.read(0.0)
            if not self._reading.events:
                break
            self._assemble()
        if not self._complete:
            self._expects_event()  # it raises what has ended this

    def _read_until(self, until: Time, timeout: float | None) -> None:
        """Read until an epoch is complete, or the topic has ended."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        is_late = False
        self._assemble()
        while self.frontier.less_equal(until) and self._expects_event():
            if is_late:
                raise self._too_late(timeout)
            left_s = _left_s(deadline_s)
            self._reading.read(left_s)
            is_late = not left_s
            self._assemble()

    # ------------------------------------------------------------------ reading

    def _expects_event(self) -> bool:
        """Tell whether to read for the next event; raise what ended this once there is none left."""
        if self._reading.events or self._reading.is_closed:
            return False
        if self._reading.error is not None:
            raise self._reading.error
        if self._subscriber.is_ended and self._done.is_automatic and not self._complete:
            self.close()
        return not self._subscriber.is_ended

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._done.settle()
        self.close()


def _left_s(deadline_s: float | None) -> float:
    """Return how long to wait at a time."""
    return WAIT_S if deadline_s is None else min(WAIT_S, max(0.0, deadline_s - time.monotonic()))
