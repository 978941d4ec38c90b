"""The reader of a topic with exactly-once delivery: lost messages are asked for again, whoever dies meanwhile.

One thread reads, and the reader asks only while it reads. Messages that come meanwhile wait at the parents, and in the
log. The parent is a relay if there is one, otherwise each pubend.
"""

import logging
import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, Final

from tidewheel.host.ray_cluster import lost, node_id, process_id
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.catalog.catalog_actor import ask_catalog
from tidewheel.pubsub.catalog.registration import PUBLISHED_HERE
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.exactly_once.subend import IDLE_S, PATIENT_IDLE_S
from tidewheel.pubsub.exactly_once.subend_stream import SubendStream
from tidewheel.pubsub.exactly_once.subscription import prefix_end
from tidewheel.pubsub.messages.delivery_messages import (
    Begun,
    Downstream,
    KnowledgeMessage,
    Rejected,
    Stranger,
    Upstream,
)
from tidewheel.pubsub.messages.delivery_options import MessageFilter, Where
from tidewheel.pubsub.messages.frames import Join
from tidewheel.pubsub.protocol.fetched import Fetched
from tidewheel.pubsub.subscribers.parents import HANGS_S, RESTARTS_WITHIN_S, KeptParent, Parent, ParentGone, find_parent
from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls
from tidewheel.pubsub.subscribers.subscription_options import SubscriptionOptions
from tidewheel.pubsub.subscribers.topic_reader import ActorReader, Finds

_LOG = logging.getLogger(__name__)

TOLD_EVERY_S: Final = 0.01
"""While the consumer reads, or waits for messages, acknowledgements go upstream so often at most, in seconds."""
TOLD_WITHIN_S: Final = 0.1
"""Acknowledgements go upstream within so many seconds, if the consumer reads on."""

_LIFE_DIGITS: Final = 12
_MOST_RELAYS = 5
"""After so many dead relays, the reader connects to the pubends."""


class NoRelay(DeliveryError):  # noqa: N818  it names what is missing
    """There is no relay for a reader: it has to connect to the pubends."""


class SubendReader(ActorReader):
    """Reads for one subscription.

    Args:
        greeting: the first message to each parent; it has the id of the reader.
        node: the node of the cluster that this process is on.
        calls: its calls to the pubends, which have taken it on.
        begun: the place where it begins at each of them.
    """

    is_durable = True

    def __init__(self, greeting: Join, node: str, calls: PubendCalls, begun: Sequence[Begun]) -> None:
        self._partitions = tuple(range(len(begun)))
        super().__init__(calls.info.name, greeting, {self._partitions: self._find_relay}, RESTARTS_WITHIN_S)
        self.began = [one.first_frontiers for one in begun]
        self._info = calls.info
        self._node = node
        self._calls = calls
        # The end of a job waits for all readers but those of its own process, so pubends must tell them apart.
        may_consolidate = calls.options.name is None and calls.info.registration not in PUBLISHED_HERE
        self._stream = SubendStream(
            greeting.name,
            calls.info.domain,
            begun,
            calls.options.order,
            idle_s=IDLE_S if greeting.awaits_silence else PATIENT_IDLE_S,
            may_consolidate=may_consolidate,
        )
        self._live = set(self._partitions)
        self._relay: Any = None
        self._tells_at_once = calls.options.ack == "manual"
        self._done: deque[Sequence[tuple[int, int]]] = deque()
        self._told_s = 0.0
        self._has_left = self._is_noted = False
        self._rejected: set[int] = set()

    # ------------------------------------------------------------------ parents

    def _find_relay(self, why_lost: str) -> Parent:
        """Return a way to a relay; raise NoRelay if there is none, and ParentGone if the cluster is gone."""
        if gone := lost():
            raise ParentGone(gone, is_for_good=True)
        for _ in range(_MOST_RELAYS):
            try:
                self._relay = ask_catalog("parent", self._topic, self._info.registration, self._node, self._relay)
                if self._relay is None:
                    break
            except DeliveryError as error:
                _LOG.info("topic %r: no relay is known: %s", self._topic, error)
                break
            try:
                # It may hang, too; others can do what it does.
                return find_parent(self._relay, self._greeting.name, self._node, within_s=HANGS_S)
            except DeliveryError as error:
                _LOG.info("topic %r: a relay does not answer: %s", self._topic, error)
        raise NoRelay(f"topic {self._topic!r}: there is no relay", topic=self._topic)

    def _find_pubend(self, partition: int, why_lost: str) -> Parent:
        """Return a way to a pubend, which has forgotten this reader if it was started again."""
        if why_lost:
            self._calls.subscribe_again(partition, self._stream.acknowledged(partition).prefix_end)
        return find_parent(self._info.partitions[partition], self._greeting.name, self._node)

    def _look(self, kept: KeptParent, now_s: float) -> None:
        try:
            is_another = kept.look(now_s)
        except NoRelay:
            pubends: Finds = {(number,): partial(self._find_pubend, number) for number in self._live}
            self._parents = self._kept(pubends, kept.why_lost)
            return
        if is_another:
            self._stream.reconnected()

    # ------------------------------------------------------------------ reading

    def fetch(self, timeout_s: float) -> list[Fetched]:
        """Do as `ActorReader.fetch` does; tell the acknowledgements that were made meanwhile."""
        found: list[Fetched] = []
        try:
            found = super().fetch(timeout_s)
        finally:
            if self._tells_at_once or not found:
                self._tell_acknowledged()
        return found

    def _take(self) -> list[Fetched]:
        now_s = time.monotonic()
        self._say(self._stream.ask(now_s))
        if now_s - self._told_s >= TOLD_EVERY_S:
            self._tell(now_s)
        return self._stream.fetch()

    def _due_s(self) -> float:
        tell_at_s = self._told_s + TOLD_EVERY_S if self._done or self._stream.has_acks else inf
        return min(super()._due_s(), self._stream.ask_at_s(), tell_at_s)

    def _tell(self, now_s: float) -> None:
        """Tell parents what is acknowledged."""
        while self._done:
            for partition, number in self._done.popleft():
                self._stream.acknowledge(partition, number)
        self._say(self._stream.acks())
        self._told_s = now_s

    def _say(self, messages: Sequence[Upstream]) -> None:
        if messages:
            parent_of = {number: kept for kept, numbers in self._parents.items() for number in numbers}
            self._poll = None  # a parent may not take all of it
            for message in messages:
                if message.pubend in parent_of:  # others have ended
                    parent_of[message.pubend].say([message])

    def _hear(self, kept: KeptParent, told: Sequence[Downstream], now_s: float) -> None:
        for message in told:
            match message:
                case Rejected(pubend, reason):
                    self._rejected.add(pubend)
                    raise PublisherLost.at(self._topic, pubend, f"has disconnected this subscriber: {reason}")
                case Stranger(pubend, reader):
                    if reader == self._greeting.name:
                        self._subscribe_again(pubend)
                case _:
                    self._learn(message, now_s)

    def _learn(self, message: KnowledgeMessage, now_s: float) -> None:
        try:
            self._stream.receive(message, now_s)
        except DeliveryError:
            # If that is because another reader has acknowledged the lost messages, its pubend says so.
            self._subscribe_again(message.pubend)
            raise

    def _subscribe_again(self, pubend: int) -> None:
        """Have a pubend take this reader on again; one that is just being started says so again if it has to."""
        try:
            self._calls.subscribe_again(pubend, self._stream.acknowledged(pubend).prefix_end)
        except ParentGone as error:
            if error.is_for_good:
                raise PublisherLost.at(self._topic, pubend, f"is dead: {error}") from error
            return
        self._stream.reconnected()

    # ------------------------------------------------------------------ the consumer

    def acknowledge(self, batches: Sequence[tuple[int, int]]) -> None:
        """Record that no one needs some batches any more, and tell pubends soon; any thread may call this.

        Pubends are told of all of them together: a later reader of the subscription gets all of these batches, or none.
        """
        self._done.append(batches)
        if not self._tells_at_once and time.monotonic() - self._told_s < TOLD_WITHIN_S:
            return
        self._tell_acknowledged()
        if self._done:
            self._ring()  # another thread reads: it tells

    def _tell_acknowledged(self) -> None:
        """Tell parents what is acknowledged, unless another thread reads, and does so."""
        while self._done and self._reading.acquire(blocking=False):
            try:
                if self._is_released:
                    return
                self._tell(time.monotonic())
            finally:
                self._reading.release()

    def leave(self) -> None:
        """Have the acknowledgements noted. Idempotent."""
        self._is_released = True
        self._ring()
        with self._reading:
            if self._has_left:
                return
            self._has_left = True
            self._tell(time.monotonic())
            if not (self._live or self._is_bell_gone):
                self._listen(())
        # A pubend that does not wait for all acknowledgements has rejected this reader before it goes.
        ended = set(self._partitions) - self._live - self._rejected
        over = list(filter(self._stream.is_done, ended))
        self._is_noted = self._calls.leave([self._stream.acknowledged(one).ranges() for one in self._partitions], over)

    def check_end(self) -> None:
        """Raise PublisherLost if a pubend has rejected this reader, and does not note that all is acknowledged."""
        with self._reading:
            self._tell(time.monotonic())
            self._listen(())
        if self._rejected and self._calls.options.name is not None:
            if all(map(self._stream.is_done, self._partitions)):
                self.leave()
            if not self._is_noted:
                self._check()

    def detach(self, partition: int) -> None:
        """Record that a partition has ended: its parent is needed no more, unless other partitions need it.

        In total order its silence is needed until all of them have ended: their messages may come only after it.
        """
        if self._stream.is_total:
            return
        self._live.discard(partition)
        for kept, partitions in self._parents.items():
            kept.is_needed = not self._live.isdisjoint(partitions)


def read_exactly_once(info: TopicInfo, where: Where | None, options: SubscriptionOptions) -> SubendReader:
    """Return a reader of a topic, connected: to a relay if there is one, otherwise to the pubends.

    Raises:
        DeliveryError: a publisher does not take it on, or no longer has the next messages.
    """
    options = replace(options, start="earliest") if info.has_history else options
    life = uuid.uuid4().hex[:_LIFE_DIGITS]
    name = options.name or f"unnamed-{life}"
    reader = f"{process_id()}/{name}/{life}"
    calls = PubendCalls(info, name, reader, options)
    begun = calls.subscribe()
    if info.has_history and options.name is None and any(prefix_end(one.acknowledged) for one in begun):
        calls.leave([one.acknowledged for one in begun])
        raise DeliveryError(
            f"topic {info.name!r}: its log has forgotten changes, as it was written without history=True. Give it a "
            "new log",
            topic=info.name,
        )
    # With a condition, silence says that messages need no acknowledgement.
    awaits_silence = where is not None or (options.order == "total" and len(begun) > 1)
    greeting = Join(reader, None if where is None else MessageFilter(where), awaits_silence)
    reading = SubendReader(greeting, node_id(), calls, begun)
    reading.attach()
    return reading
