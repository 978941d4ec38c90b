"""A source that reads a topic of this or another job; its tokens follow the topic's frontier.

If the publishing job goes back to a snapshot, batches of its incomplete epochs become invalid. So the source holds the
batches of a job with snapshots until their epoch is complete.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from tidewheel.host.log_lines import about
from tidewheel.operators.sources.contract import Fetched, Partition, Pause
from tidewheel.operators.sources.inline_source import InlineSource
from tidewheel.progress import Time, TimeDomain
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.errors import CatalogSilent, DeliveryError, NoCluster, UnknownTopic
from tidewheel.pubsub.messages.events import Batch, End, Event, Frontier
from tidewheel.pubsub.protocol.epochs import EpochAssembler
from tidewheel.pubsub.subscribers.subscription import Subscription

_LOGGER = logging.getLogger(__name__)
_TAKE_S = 1.0
_IDLE_S = 0.01
_LOOK_S = 0.5
_MOST_WAITING_BYTES = 8 * 1024 * 1024
_MOST_AT_ONCE = 64


class TopicSource(InlineSource[Any]):
    """A source that subscribes to a topic on worker 0, and sends the records from there.

    Attributes:
        timeout: how many seconds to wait for the topic to exist; None for no limit.
    """

    at_once = _MOST_AT_ONCE
    is_woken = True

    def __init__(
        self, topic: str, domain: TimeDomain, subscribe: Callable[..., Subscription], timeout: float | None
    ) -> None:
        self.topic = topic
        self.domain = domain
        self.subscribe = subscribe
        self.timeout = timeout
        self.waits_for = f"topic {topic!r}"

    def partitions_of(self, workers: int) -> list[Partition]:
        """Return one partition, the topic, which worker 0 reads."""
        return [self.topic]

    def open(self, partition: Partition, position: Any) -> "_TopicReading":
        """Subscribe to the topic; the position is the topic's frontier."""
        return self.read(partition, position, lambda: None)

    def read(self, partition: Partition, position: Any, wake: Callable[[], object]) -> "_TopicReading":
        """Subscribe to the topic on another thread, which calls ``wake`` when events have arrived."""
        intake = _Intake(partial(self._connect, position is not None), wake)
        return _TopicReading(self.topic, self.domain, intake, position)

    def _connect(self, is_restored: bool, is_closed: Callable[[], bool]) -> Subscription:
        until_s = math.inf if self.timeout is None else time.monotonic() + self.timeout
        subscription: Subscription | None = None
        while subscription is None:
            left_s = max(0.0, until_s - time.monotonic())
            try:
                subscription = self.subscribe(timeout_s=min(left_s, _LOOK_S))
            except UnknownTopic as error:
                if left_s == 0.0 or is_closed():
                    waited_s = self.timeout or 0.0  # in all; the last of many looks did not wait
                    text = str(error).replace(f"within {error.waited_s:g} s", f"within {waited_s:g} s", 1)
                    raise UnknownTopic(text, topic=self.topic, waited_s=waited_s, topics=error.topics) from None
                LOCAL_CATALOG.lookup(self.topic, min(left_s, _LOOK_S))
            except (NoCluster, CatalogSilent) as error:
                if left_s == 0.0 or is_closed():
                    text = f"no job published topic {self.topic!r} within {self.timeout} s in this process, and {error}"
                    raise DeliveryError(text, topic=self.topic) from error
                LOCAL_CATALOG.lookup(self.topic, min(left_s, _LOOK_S))
        if subscription.domain != self.domain:
            subscription.close()
            raise DeliveryError(
                f"topic {self.topic!r} has times of {subscription.domain!r}, and this dataflow of {self.domain!r}. "
                "Publish it outside of loops, or read it into a dataflow that has its times",
                topic=self.topic,
            )
        if is_restored and subscription.has_history:
            subscription.close()
            raise DeliveryError(
                f"topic {self.topic!r} begins with its state, and the snapshot from which this job goes on has it "
                "already. Run this job without snapshots=, or publish the topic without history=True",
                topic=self.topic,
            )
        return subscription


class _TopicReading(Iterator[Fetched[Any] | Pause]):
    """An iterator over the batches of a subscription, without times that the snapshot has.

    Args:
        position: the frontier in the snapshot; None at the beginning.
    """

    def __init__(self, topic: str, domain: TimeDomain, intake: "_Intake", position: tuple[Time, ...] | None) -> None:
        self._topic = topic
        self._domain = domain
        self._intake = intake
        self._missing_since = position
        self._frontier = (domain.minimum(),) if position is None else position

    def close(self) -> None:
        self._intake.close()

    def __next__(self) -> Fetched[Any] | Pause:
        while events := self._intake.take(1):
            (event,) = events
            match event:
                case Batch():
                    if self._has_yet(event.time):  # else it was sent before a snapshot was taken
                        return Fetched(event.data, self._frontier, event.time, frontier=self._frontier)
                case Frontier(frontier=frontier):
                    times = tuple(frontier)
                    self._warn_of_gap(times)
                    if times and all(map(self._has_yet, times)):
                        self._frontier = times
                        return Fetched([], times, times[0], frontier=times)
                case End():
                    raise StopIteration
                case Exception():
                    raise event
        return Pause(_IDLE_S)

    def _has_yet(self, time: Time) -> bool:
        return any(self._domain.less_equal(own, time) for own in self._frontier)

    def _warn_of_gap(self, until: tuple[Time, ...]) -> None:
        if self._missing_since is None:
            return
        _LOGGER.warning(
            "a source goes on from a snapshot, and a topic is not read again. Of topic %r it misses what came since "
            "the snapshot, at time %s, and before it had subscribed again, at %s. An epoch that was open may be there "
            "in part",
            self._topic,
            ", ".join(map(repr, self._missing_since)),
            ", ".join(map(repr, until)) or "its end",
            extra=about(),
        )
        self._missing_since = None


def whole(events: Iterable[Event], waiting: EpochAssembler) -> Iterator[Event]:
    """Yield the batches of an epoch once it is complete or the topic ends, right before that frontier move."""
    for event in events:
        for epoch in waiting.receive(event):
            yield from epoch.batches
        if isinstance(event, Frontier | End):
            yield event


class _Intake:
    """A thread that waits for events, and keeps a few of them ready.

    Args:
        connect: makes the subscription; its argument is a function that returns True to give up.

    Attributes:
        events: the events that are ready, oldest first; the last is an `End`, or the error that has ended the
            subscription.
    """

    def __init__(self, connect: Callable[[Callable[[], bool]], Subscription], wake: Callable[[], object]) -> None:
        self.events: deque[Event | Exception] = deque()
        self._connect = connect
        self._wake = wake
        self._changed = threading.Condition()
        self._bytes = 0
        self._is_closed = False
        self._subscription: Subscription | None = None
        threading.Thread(target=self._run, name="tidewheel-from-topic", daemon=True).start()

    def take(self, most: int) -> list[Event | Exception]:
        """Remove and return the oldest events, at most ``most``."""
        with self._changed:
            taken = [self.events.popleft() for _ in range(min(most, len(self.events)))]
            self._bytes -= sum(map(_bytes, taken))
            self._changed.notify()
            return taken

    def close(self) -> None:
        """Cancel the subscription; this ends the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._subscription is not None:
            self._subscription.close()

    def _run(self) -> None:
        try:
            with self._connect(lambda: self._is_closed) as self._subscription:
                self._read(self._subscription)
        except Exception as error:  # noqa: BLE001 - it is raised where the job sees it
            self.events.append(error)
        self._wake()

    def _read(self, subscription: Subscription) -> None:
        waiting = EpochAssembler(subscription.domain)
        while not self._is_closed:
            # A publishing local job runs only when it is read from, and cannot signal that it has more to do.
            events = subscription.poll(0.0 if subscription.is_local else _TAKE_S)
            if subscription.goes_back:
                events = list(whole(events, waiting))
            if events:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed or self._bytes < _MOST_WAITING_BYTES)
                    self.events.extend(events)
                    self._bytes += sum(map(_bytes, events))
                self._wake()
            elif subscription.has_ended:
                self.events.append(End())
                return
            elif subscription.is_local:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed, _IDLE_S)


def _bytes(event: Event | Exception) -> int:
    return len(event.encoded.payload) if isinstance(event, Batch) else 0
