"""The messages of a topic with a log, from its pubends; after the death of a process, the source asks again.

One thread reads, and the source asks only while that thread reads. Otherwise messages wait at the parents and in the
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
from tidewheel.pubsub.messages.delivery_messages import Begun, Downstream, KnowledgeMessage, Stranger
from tidewheel.pubsub.messages.delivery_options import MessageFilter, Where
from tidewheel.pubsub.messages.frames import Join
from tidewheel.pubsub.messages.wire import Rejected
from tidewheel.pubsub.protocol.fetched import Fetched
from tidewheel.pubsub.subscribers.message_source import MessageSource
from tidewheel.pubsub.subscribers.parents import HANGS_S, RESTARTS_WITHIN_S, KeptParent, Parent, ParentGone, find_parent
from tidewheel.pubsub.subscribers.polled_parents import Finds, Partitions, PolledParents
from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls
from tidewheel.pubsub.subscribers.subscription_options import SubscriptionOptions

_LOG = logging.getLogger(__name__)

TOLD_EVERY_S: Final = 0.01
"""The shortest time between two messages with acknowledgements, in seconds, while the consumer reads or waits."""
TOLD_WITHIN_S: Final = 0.1
"""The seconds within which acknowledgements go upstream if the consumer continues to read."""

_LIFE_DIGITS: Final = 12
_MOST_RELAYS = 5
"""After this number of dead relays, the reader connects to the pubends."""


class NoRelay(DeliveryError):  # noqa: N818  it names what is missing
    """There is no relay for a reader, so it must connect to the pubends."""


class SubendSource(MessageSource):
    """The pubends of a topic, for one subscription."""

    is_durable = True

    def __init__(self, greeting: Join, node: str, calls: PubendCalls, begun: Sequence[Begun]) -> None:
        self._partitions = tuple(range(len(begun)))
        self.began = [one.first_frontiers for one in begun]
        self._topic = calls.info.name
        self._greeting = greeting
        self._info = calls.info
        self._node = node
        self._calls = calls
        # The end of a job waits for all readers except those in its own process, so pubends must tell them apart.
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
        finds: Finds = {self._partitions: self._find_relay}
        # The thread of a log needs the core, so this poll is not eager.
        self._parents = PolledParents(self._topic, greeting, finds, self, RESTARTS_WITHIN_S, is_eager=False)

    def attach(self) -> None:
        try:
            self._parents.attach()
        except BaseException:
            self.leave()
            self.release()
            raise

    # ------------------------------------------------------------------ parents

    def _find_relay(self, why_lost: str) -> Parent:
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
                # This relay may hang, too, and others can replace it.
                return find_parent(self._relay, self._greeting.name, self._node, within_s=HANGS_S)
            except DeliveryError as error:
                _LOG.info("topic %r: a relay does not answer: %s", self._topic, error)
        raise NoRelay(f"topic {self._topic!r}: there is no relay", topic=self._topic)

    def _find_pubend(self, partition: int, why_lost: str) -> Parent:
        if why_lost:
            self._calls.subscribe_again(partition, self._stream.acknowledged(partition).prefix_end)
        return find_parent(self._info.partitions[partition], self._greeting.name, self._node)

    def look(self, kept: KeptParent, now_s: float) -> None:
        try:
            is_another = kept.look(now_s)
        except NoRelay:
            pubends: Finds = {(number,): partial(self._find_pubend, number) for number in self._live}
            self._parents.replace(pubends, kept.why_lost)
            return
        if is_another:
            self._stream.reconnected()

    # ------------------------------------------------------------------ reading

    def fetch(self, timeout_s: float) -> list[Fetched]:
        found: list[Fetched] = []
        try:
            found = self._parents.fetch(timeout_s)
        finally:
            if self._tells_at_once or not found:
                self._tell_acknowledged()
        return found

    def take(self) -> list[Fetched]:
        now_s = time.monotonic()
        self._parents.say(self._stream.ask(now_s))
        if now_s - self._told_s >= TOLD_EVERY_S:
            self._tell(now_s)
        return self._stream.fetch()

    def due_s(self) -> float:
        tell_at_s = self._told_s + TOLD_EVERY_S if self._done or self._stream.has_acks else inf
        return min(self._stream.ask_at_s(), tell_at_s)

    def _tell(self, now_s: float) -> None:
        while self._done:
            for partition, number in self._done.popleft():
                self._stream.acknowledge(partition, number)
        self._parents.say(self._stream.acks())
        self._told_s = now_s

    def hear(self, _: Partitions, told: Sequence[Downstream], now_s: float) -> bool:
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
        return False

    def _learn(self, message: KnowledgeMessage, now_s: float) -> None:
        try:
            self._stream.receive(message, now_s)
        except DeliveryError:
            # If another reader has acknowledged the lost messages, the pubend's answer says so.
            self._subscribe_again(message.pubend)
            raise

    def _subscribe_again(self, pubend: int) -> None:
        try:
            self._calls.subscribe_again(pubend, self._stream.acknowledged(pubend).prefix_end)
        except ParentGone as error:
            if error.is_for_good:
                raise PublisherLost.at(self._topic, pubend, f"is dead: {error}") from error
            return
        self._stream.reconnected()

    # ------------------------------------------------------------------ the consumer

    def acknowledge(self, batches: Sequence[tuple[int, int]]) -> None:
        """Acknowledge batches, and tell pubends soon; thread-safe.

        A later reader of the subscription receives either all of these batches again, or none of them.
        """
        self._done.append(batches)
        if not self._tells_at_once and time.monotonic() - self._told_s < TOLD_WITHIN_S:
            return
        self._tell_acknowledged()
        if self._done:
            self._parents.ring()  # another thread reads: it tells

    def _tell_acknowledged(self) -> None:
        while self._done and self._parents.turn.acquire(blocking=False):
            try:
                if self._parents.is_released:
                    return
                self._tell(time.monotonic())
            finally:
                self._parents.turn.release()

    def leave(self) -> None:
        self._parents.stop()
        with self._parents.turn:
            if self._has_left:
                return
            self._has_left = True
            self._tell(time.monotonic())
            if not (self._live or self._parents.is_closed):
                self._parents.listen()
        # A pubend that does not wait for all acknowledgements rejects this reader before it ends.
        ended = set(self._partitions) - self._live - self._rejected
        over = list(filter(self._stream.is_done, ended))
        self._is_noted = self._calls.leave([self._stream.acknowledged(one).ranges() for one in self._partitions], over)

    def check_end(self) -> None:
        with self._parents.turn:
            self._tell(time.monotonic())
            self._parents.listen()
        if self._rejected and self._calls.options.name is not None:
            if all(map(self._stream.is_done, self._partitions)):
                self.leave()
            if not self._is_noted:
                self._parents.check()

    def detach(self, partition: int) -> None:
        """Record that a partition has ended, and disconnect from its parent unless other partitions need it.

        In total order, all partitions need their parents to the end.
        """
        if self._stream.is_total:
            return
        self._live.discard(partition)
        self._parents.need(self._live)

    def release(self) -> None:
        self._parents.release()


def read_exactly_once(info: TopicInfo, where: Where | None, options: SubscriptionOptions) -> SubendSource:
    """Subscribe to a topic with a log: through a relay if there is one, otherwise at the publishers themselves.

    Raises:
        DeliveryError: a publisher refuses, or no longer has the next messages.
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
    # With a condition, silence shows that messages need no acknowledgement.
    awaits_silence = where is not None or (options.order == "total" and len(begun) > 1)
    greeting = Join(reader, None if where is None else MessageFilter(where), awaits_silence)
    source = SubendSource(greeting, node_id(), calls, begun)
    source.attach()
    return source
