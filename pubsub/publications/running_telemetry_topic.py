"""The topic on which a job describes itself, once a second, while anyone listens.

In the driver's process the topic always exists, and costs nothing without subscribers. Other processes of the cluster
find the topic only after one of them has requested it. Then an actor publishes it, until a minute has passed without
subscribers.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any, ClassVar, Final

from tidewheel.host.attachment import AttachmentHost
from tidewheel.host.ray_cluster import node_id
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.catalog.catalog import TELEMETRY, TopicInfo
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions
from tidewheel.pubsub.messages.encoded_message import encode_batch
from tidewheel.pubsub.messages.wire import FeedEvent, LowerFrontierUpdate
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.publications.publication import Publication, RunningPublication
from tidewheel.pubsub.publishers.connection import PublisherConnection
from tidewheel.pubsub.publishers.local_publisher import LocalPublisher

_LOGGER = logging.getLogger(__name__)
_CAPACITY_BYTES: Final = 32 * 1024 * 1024
_LONELY_S: Final = 60.0
_LOOK_S: Final = 5.0
_END_S: Final = 1.0


class RunningTelemetryTopic:
    """The telemetry topic of a running job. One thread publishes; any thread may call `open` and `finish`."""

    def __init__(self, host: AttachmentHost, came: Callable[[], None]) -> None:
        self._name = f"{TELEMETRY}{host.job}"
        self._came = came
        self._host = replace(host, workers=1, pump=None, keeps_snapshots=False)
        self._here = _HeardPublisher(came)
        self._info = TopicInfo(self._name, host.job, IntegerDomain(), (self._here,), uuid.uuid4().hex)
        self._next = 0
        self._lock = threading.Lock()
        self._opening: threading.Thread | None = None
        self._elsewhere: _Elsewhere | None = None
        self._is_finished = False
        LOCAL_CATALOG.hide(self._info)

    @property
    def listeners(self) -> int:
        """The number of subscribers; a topic that is open to other processes counts at least one."""
        elsewhere, is_opening = self._elsewhere, self._opening is not None
        there = int(is_opening) if elsewhere is None else max(1, elsewhere.listeners)
        with self._here.changed:  # subscribers come and go on other threads
            return self._here.publisher.subscribers + there

    def publish(self, record: Mapping[str, Any]) -> None:
        """Publish a record as the next epoch, without waiting; a subscriber that does not read is disconnected."""
        time, self._next = self._next, self._next + 1
        move = LowerFrontierUpdate([(time, -1), (time + 1, 1)])
        events: list[FeedEvent] = [encode_batch(time, [record]), move] if self._here.publisher.queues else [move]
        self._here.feed(events)
        elsewhere = self._elsewhere
        if elsewhere is None:
            return
        try:
            elsewhere.look()
            if elsewhere.is_lonely:
                self._close("no process has read it for a minute")
            elif not elsewhere.publish(time, record):
                self._came()  # the next document must have the records that were left out
        except (Exception, SystemExit) as error:  # noqa: BLE001 - Ray raises SystemExit where it is shut down
            _LOGGER.warning("topic %r ends for other processes, until one asks for it again: %s", self._name, error)
            self._close(str(error))

    def open(self) -> None:
        """Begin to publish also for other processes of the cluster, once an actor has started; idempotent."""
        with self._lock:
            if self._elsewhere is None and self._opening is None and not self._is_finished:
                name = f"tidewheel-open-{self._name}"
                self._opening = threading.Thread(target=self._open, name=name, daemon=True)
                self._opening.start()

    def _open(self) -> None:
        made: _Elsewhere | None = None
        try:
            made = _Elsewhere(self._name, replace(self._host, nodes=[node_id()]), self._next)
        except Exception:
            _LOGGER.exception("topic %r cannot be published for other processes", self._name)
        with self._lock:
            if not self._is_finished:
                self._elsewhere, made = made, None
            self._opening = None
        if made is not None:  # the job has ended since
            made.finish(None)

    def _close(self, reason: str | None) -> None:
        with self._lock:
            elsewhere, self._elsewhere = self._elsewhere, None
        if elsewhere is not None:
            elsewhere.finish(reason, self._next)

    def finish(self) -> None:
        with self._lock:
            if self._is_finished:
                return
            self._is_finished = True
        self._here.feed([LowerFrontierUpdate([(self._next, -1)])])
        LOCAL_CATALOG.retract(self._name, self._info.registration)
        self._close(None)


class _HeardPublisher(LocalPublisher):
    """A publisher that reports each new subscriber; subscribers never hold it back."""

    def __init__(self, came: Callable[[], None]) -> None:
        super().__init__(Publisher(IntegerDomain(), _CAPACITY_BYTES), threading.Condition(), None)
        self.came = came

    def attach(self, subscriber: str, options: DeliveryOptions = EVERYTHING) -> None:
        super().attach(subscriber, replace(options, slow="disconnect") if options.slow == "block" else options)
        self.came()


class _OwnPublication(Publication):
    """The publication of one of tidewheel's own topics."""

    __slots__ = ()

    may_be_reserved: ClassVar[bool] = True


class _Elsewhere:
    """The telemetry topic for other processes: published by an actor on the driver's node."""

    def __init__(self, topic: str, host: AttachmentHost, time: int) -> None:
        publication = _OwnPublication(topic, IntegerDomain(), _CAPACITY_BYTES, "merged")
        self._running: RunningPublication = publication.start(host)
        [connection] = self._running.handles
        self._connection: PublisherConnection = connection
        self._time = 0
        self.listeners = 1  # the process that has asked for it
        self._heard_at = self._looked_at = monotonic()
        self._move_to(time)

    def _move_to(self, time: int) -> None:
        if time > self._time:
            self._connection.frontier([(self._time, -1), (time, 1)])
            self._time = time

    def publish(self, time: int, record: Mapping[str, Any]) -> bool:
        has_room = self._connection.has_room()
        self._move_to(time)
        if has_room:
            self._connection.data(time, [record])
        self._move_to(time + 1)
        self._connection.flush()
        return has_room

    def look(self) -> None:
        now = monotonic()
        if now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        self._running.check()
        [counts] = self._running.statistics()
        self.listeners = counts.get("subscribers", 0)
        if self.listeners:
            self._heard_at = now

    @property
    def is_lonely(self) -> bool:
        if self.listeners or monotonic() - self._heard_at <= _LONELY_S:
            return False
        self._looked_at -= _LOOK_S
        self.look()
        return not self.listeners

    def finish(self, reason: str | None, time: int | None = None) -> None:
        try:
            if reason is None:
                self._move_to(self._time if time is None else time)
                self._connection.frontier([(self._time, -1)])
                self._connection.flush()
            self._running.finish(reason, _END_S, on_purpose=reason is not None)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - Ray raises SystemExit where it is shut down
            _LOGGER.warning("telemetry could not end in good order: %s", error)
            self._running.finish(str(error), _END_S)
        finally:
            self._connection.close()
