"""The subscription: a live view of a topic."""

import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Any, Self, TypeAlias

from tidewheel.display.live_views import live_view
from tidewheel.host.extras import check_extra
from tidewheel.progress import Antichain, Time
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.errors import DeliveryError, TopicStopped
from tidewheel.pubsub.messages.changes import PresentState
from tidewheel.pubsub.messages.events import Batch, Epoch, Event, SubscriberStatistics, SubstreamsEnded, table_of
from tidewheel.pubsub.messages.topic_schema import TopicSchema
from tidewheel.pubsub.protocol.epochs import EpochAssembler
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.subscribers.epochs_iterator import Epochs
from tidewheel.pubsub.subscribers.message_source import MessageSource
from tidewheel.pubsub.subscribers.subscription_options import Acknowledging, DoneBatches
from tidewheel.pubsub.subscribers.topic_reader import WAIT_S, TopicReader

What: TypeAlias = str | int | Callable[[list[Any]], float | None]
"""A column, or a function of the records of an epoch."""


class Subscription:
    """A live view of a topic: an iterator, also with ``async for``, over its events.

    Events are `Batch`, `Frontier`, `Dropped`, `RolledBack`, `End`, and with published ends `SubstreamsEnded`. Iteration
    ends after the topic's `End`, or after `close`. If the topic fails, a publisher dies or this subscriber is
    disconnected, iteration raises after all earlier events. After ``job.stop()`` iteration ends without an `End`, and
    without epochs published only in part, which are those at or after `frontier`. One thread reads; any thread may call
    `close`. Several tasks of one event loop may read: each event or epoch goes to one of them.

    Unread messages wait at the publishers, within their capacity, or in their logs. A publisher without a log gives up
    a subscriber on another node that has not read for a minute.

    Args:
        info: the topic.
        source: the topic's connected publishers.
        atomic: whether to leave out epochs of which a part may have been published before.
        may_drop: whether publishers may drop epochs.
        expected: the schema of batches to check; None for no check.
        ack: with exactly-once delivery, whether acknowledgements are sent automatically.

    Attributes:
        topic: the name of the topic.
        domain: the order of the topic's times.
        is_local: whether a job of this process publishes the topic; the job then runs when the topic is read.
        goes_back: whether batches of incomplete epochs may become void.
        has_history: whether the subscription begins with the state of the topic.
    """

    def __init__(
        self,
        info: TopicInfo,
        source: MessageSource,
        *,
        atomic: bool = True,
        may_drop: bool = False,
        expected: TopicSchema | None = None,
        ack: Acknowledging = "auto",
    ) -> None:
        self.topic = info.name
        self.domain = info.domain
        self.is_local = source.is_local
        self.goes_back, self.has_history = info.goes_back, info.has_history
        self._subscriber = Subscriber(
            info.domain,
            len(info.partitions),
            atomic=atomic,
            may_drop=may_drop,
            topic=info.name,
            expected=expected,
            began=source.began,
        )
        self._source = source
        self._reader = TopicReader(info.name, source, self._subscriber)
        self._done = DoneBatches(info.name, source.acknowledge, ack) if source.is_durable else None
        self._assembler = EpochAssembler(info.domain)
        self._complete: deque[Epoch] = deque()
        self._state = PresentState(info.name) if info.has_history else None
        # Publishers should not wait for a subscription that was dropped without being closed.
        weakref.finalize(self, self._reader.release)

    @property
    def frontier(self) -> Antichain:
        """The lower bound on times that can still arrive."""
        return self._subscriber.frontier

    def statistics(self) -> SubscriberStatistics:
        """Return the counts so far."""
        return self._subscriber.statistics()

    def close(self) -> None:
        """Leave the topic; idempotent.

        A running iteration ends without an `End`. Unless the topic has ended, a new iteration or a table then raises
        `DeliveryError`, and `poll` returns nothing.

        With exactly-once delivery this waits, a few seconds at most, until the publishers have recorded the
        acknowledgements. The next reader of a durable subscription receives the unacknowledged messages again.
        """
        self._reader.close()

    # ------------------------------------------------------------------ events

    def __iter__(self) -> Self:
        self._check_open()
        return self

    def __next__(self) -> Event:
        """Wait for the next event and return it."""
        self._settle()
        while self._expects_event(iterates=True):
            self._reader.read(WAIT_S)
        if not self._reader.events:
            raise StopIteration
        return self._give_event()

    def __aiter__(self) -> Self:
        self._check_open()
        return self

    def _check_open(self) -> None:
        if self._reader.is_closed and not self._subscriber.is_ended:
            raise DeliveryError(
                f"topic {self.topic!r}: this subscription is closed, so there is nothing to read, though the topic has "
                "not ended. Read inside the with block, before close(), or subscribe again",
                topic=self.topic,
            )

    async def __anext__(self) -> Event:
        """Return the next event; a cancelled task loses nothing.

        During the wait, a job of this process runs on another thread; while it is idle, this waits for its inputs.
        """
        self._settle()
        while self._expects_event(iterates=True):
            await self._reader.read_async(self)
        if not self._reader.events:
            raise StopAsyncIteration
        return self._give_event()

    def _give_event(self) -> Event:
        event: Event = self._reader.events.popleft()
        self._give([event])
        return event

    def poll(self, timeout_s: float = 0.0) -> list[Event]:
        """Return the events that have arrived, or else the first events that arrive within ``timeout_s`` seconds.

        After all earlier events this raises as iteration does, and PublisherLost if the job was stopped. `has_ended`
        tells whether no more events will arrive.
        """
        self._settle()
        deadline_s = time.monotonic() + timeout_s
        while self._expects_event():
            left_s = max(0.0, deadline_s - time.monotonic())
            self._reader.read(min(left_s, WAIT_S))
            if not left_s:
                break
        events = list(self._reader.events)
        self._reader.events.clear()
        self._give(events)
        return events

    @property
    def has_ended(self) -> bool:
        """True if the topic has ended or the subscription was closed, and the program has taken every event."""
        is_at_its_end = self._reader.is_closed or self._subscriber.is_ended
        return is_at_its_end and not self._reader.events and self._reader.error is None

    # ------------------------------------------------------------------ acknowledging

    def acknowledge(self, done: Epoch | Batch | SubstreamsEnded) -> None:
        """Acknowledge, with ``ack="manual"``, an epoch or one of its batches; thread-safe.

        Raises:
            DeliveryError: the topic is best effort, or this subscription acknowledges automatically.
        """
        if self._done is None:
            raise DeliveryError(
                f"topic {self.topic!r} is best effort, so there is nothing to acknowledge: publish it with "
                "log=tw.Log(place)",
                topic=self.topic,
            )
        self._done.acknowledge(done)

    def _settle(self) -> None:
        if self._done is not None:
            self._done.settle()

    def _give(self, given: Sequence[Event | Epoch], *, in_table: bool = False) -> None:
        if given and self._state is not None and not in_table:
            self._state.miss("epochs or events of this subscription were read otherwise")
        if self._done is not None:
            self._done.give(given)

    # ------------------------------------------------------------------ whole epochs

    def epochs(self, timeout_s: float | None = None) -> Epochs:
        """Iterate, also with ``async for``, over complete epochs; earlier epochs come first.

        Do not mix this with iteration over events. A new iterator continues where the last one stopped.

        Args:
            timeout_s: how long to wait for each epoch, in seconds; None waits until the topic ends. A local job may
                exceed it by the step that it is in.

        Raises:
            TimeoutError: no epoch was complete in time; the iterator can still be used.
            DeliveryError: this subscription is closed.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("live")
        >>> _ = flow.input("numbers", int).publish("numbers by epoch")
        >>> with tw.run(flow, engine="local") as job, tw.subscribe("numbers by epoch") as topic:
        ...     with job.input("numbers") as numbers:
        ...         numbers.send([1, 2])
        ...     for epoch in topic.epochs(timeout_s=10):
        ...         print(epoch.time, epoch.records)
        0 [1, 2]
        """
        self._check_open()
        return Epochs(self, timeout_s)

    def _give_epoch(self) -> Epoch:
        epoch = self._complete.popleft()
        self._give([epoch])
        return epoch

    def _expects_epoch(self) -> bool:
        self._assemble()
        return not self._complete and self._expects_event(iterates=True)

    def _assemble(self) -> None:
        while self._reader.events:
            event = self._reader.events.popleft()
            self._complete.extend(self._assembler.receive(event))
            if self._done is not None:
                self._done.pass_over(event)

    def to_arrow(self, until: Time | None = None, timeout_s: float | None = None) -> Any:
        """Return all complete epochs that are not read yet, as one ``pyarrow.Table``.

        Records are rows of Arrow or dicts; a missing value is null. Without epochs the table is empty. Do not mix this
        with iteration over events.

        With ``history=True`` the table is the current state: a row for each record, with its count in the column
        ``diff``. Pairs have the columns ``key`` and ``value``; other records without columns have ``record``.

        Args:
            until: an epoch to wait for; None waits only for a topic's initial state.
            timeout_s: in seconds; None waits until the topic ends.

        Raises:
            TimeoutError: the epoch has not arrived in time; nothing is lost, and you may call this again.
            DeliveryError: the topic has failed, this subscription is closed, or the records do not form a table; then
                use `epochs`.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("live")
        >>> _ = flow.input("cities").publish("cities by now")
        >>> with tw.run(flow, engine="local") as job, tw.subscribe("cities by now") as topic:
        ...     with job.input("cities") as cities:
        ...         cities.send([{"city": "Oslo"}, {"city": "Rome"}])
        ...     topic.to_arrow(until=0).column("city").to_pylist()
        ['Oslo', 'Rome']
        """
        self._check_open()
        self._settle()
        if until is not None or self.has_history:
            self._read_while(lambda: self._expects(until), timeout_s)
        if until is None:
            self._read_so_far()
        found, state = self._complete, self._state
        table = table_of(self.topic, found) if state is None else state.add(found, lacks=self._subscriber.lacks_state)
        self._give(self._complete, in_table=True)
        self._complete.clear()
        return table

    def to_pandas(self, until: Time | None = None, timeout_s: float | None = None) -> Any:
        """Return `to_arrow` as a ``pandas.DataFrame``; needs the extra ``data``; raise as `to_arrow` does."""
        check_extra("data", "to_pandas()", partial(DeliveryError, topic=self.topic))
        return self.to_arrow(until, timeout_s).to_pandas()

    def plot(self, what: What, *, max_epochs: int = 600) -> Any:
        """Return a live chart of one number for each epoch, for a notebook's cell.

        A thread of the chart reads this subscription, and closes it when the cell's output disappears.

        Args:
            what: the key of a column, or an index in a tuple, to show its mean; or a function that gets an epoch's
                records and returns a number, or None for no point.
            max_epochs: the number of latest epochs that the chart shows.

        Raises:
            DeliveryError: this is not a notebook, or the extra ``notebook`` is not installed. If a value is not a
                number, the chart ends with advice.
        """
        return live_view("plot")(self, what, max_epochs)

    def _read_so_far(self) -> None:
        ends_s = time.monotonic() + 1.0
        self._assemble()
        while self._reader.error is None and self._expects_event() and time.monotonic() < ends_s:
            self._reader.read(0.0)
            if not self._reader.events:
                break
            self._assemble()
        if not self._complete:
            self._expects_event()  # this raises the error that has ended the subscription

    def _expects(self, until: Time | None) -> bool:
        self._assemble()
        is_missing = not self._subscriber.has_begun if until is None else self.frontier.less_equal(until)
        return is_missing and self._expects_event()

    # ------------------------------------------------------------------ reading

    def _read_while(self, expects: Callable[[], bool], timeout_s: float | None) -> None:
        for left_s in self._waits(expects, timeout_s):
            self._reader.read(min(WAIT_S, left_s))

    def _waits(self, expects: Callable[[], bool], timeout_s: float | None) -> Iterator[float]:
        deadline_s = inf if timeout_s is None else time.monotonic() + timeout_s
        left_s = inf
        while expects():
            if not left_s:
                raise TimeoutError(
                    f"topic {self.topic!r}: no epoch was complete within {timeout_s:g} s; what can still come is at or "
                    f"after {', '.join(map(repr, self.frontier)) or 'no time'}"
                )
            left_s = max(0.0, deadline_s - time.monotonic())
            yield left_s

    def _expects_event(self, *, iterates: bool = False) -> bool:
        if self._reader.events or self._reader.is_closed or (iterates and isinstance(self._reader.error, TopicStopped)):
            return False
        if self._reader.error is not None:
            raise self._reader.error
        if self._subscriber.is_ended and self._done is not None and not self._complete:
            self._source.check_end()
            if self._done.is_automatic:
                self.close()
        return not self._subscriber.is_ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._settle()
        self.close()
