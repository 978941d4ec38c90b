"""The messages of a topic without a log, from its publishers' actors.

Messages are sent once, so a lost publisher is an error, unless its job returns to a snapshot. Unread messages wait in
the sockets and at the publishers.
"""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Final

from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.errors import DeliveryError, PublisherLost
from tidewheel.pubsub.messages.delivery_messages import Downstream
from tidewheel.pubsub.messages.delivery_options import DeliveryOptions
from tidewheel.pubsub.messages.frames import CODEC, Join
from tidewheel.pubsub.messages.wire import LastMessage
from tidewheel.pubsub.protocol.fetched import Fetched, opened
from tidewheel.pubsub.subscribers.message_source import MessageSource
from tidewheel.pubsub.subscribers.parents import (
    RESTARTS_WITHIN_S,
    CalledPublisher,
    KeptParent,
    Parent,
    ParentGone,
    answer_of,
    called,
)
from tidewheel.pubsub.subscribers.polled_parents import Finds, Partitions, PolledParents
from tidewheel.transport.frames import MOST_AT_ONCE, STEADILY
from tidewheel.transport.stream_link import ParentLink

_PING_TIMEOUT_S: Final = 10.0


class LiveSource(MessageSource):
    """The publishers of a topic without a log, for one subscriber.

    Raises:
        DeliveryError: a publisher does not answer.
    """

    def __init__(self, info: TopicInfo, subscriber: str, options: DeliveryOptions, node: str) -> None:
        self._info = info
        self._subscriber = subscriber
        self._options = options
        self._node = node
        self._found: list[Fetched] = []
        finds: Finds = {(partition,): partial(self._find, partition) for partition in range(len(info.partitions))}
        within_s = RESTARTS_WITHIN_S if info.goes_back else 0.0
        self._parents = PolledParents(info.name, Join(subscriber, None), finds, self, within_s)
        try:
            self._parents.attach()
        except BaseException:
            self.release()
            raise

    def _find(self, partition: int, why_lost: str) -> Parent:
        info, publisher, again = self._info, self._info.partitions[partition], bool(why_lost)
        closed = f"has closed the connection: {why_lost}"
        if again and not info.goes_back:  # a lost publisher is not replaced, as messages would be missing
            answer_of(called(publisher.ping), _PING_TIMEOUT_S)
            raise PublisherLost.at(info.name, partition, closed)
        try:
            attaching = called(publisher.attach, self._subscriber, self._options, *([again] if again else []))
            offer = answer_of(attaching)
        except ParentGone:
            raise
        except DeliveryError as error:
            raise PublisherLost.at(info.name, partition, f"{closed}; {error}") if again else error from error
        connection = None if offer is None else offer.connect(self._node)
        if connection is None:
            return CalledPublisher(publisher, self._subscriber)
        return ParentLink(CODEC, connection, STEADILY if self._options.slow == "block" else MOST_AT_ONCE)

    def fetch(self, timeout_s: float) -> list[Fetched]:
        return self._parents.fetch(timeout_s)

    def hear(self, partitions: Partitions, told: Sequence[Downstream], _: float) -> bool:
        messages = opened(told)
        self._found.append(Fetched(partitions[0], messages))
        return isinstance(messages[-1].message, LastMessage)

    def look(self, kept: KeptParent, now_s: float) -> None:
        kept.look(now_s)

    def take(self) -> list[Fetched]:
        found, self._found = self._found, []
        return found

    def due_s(self) -> float:
        return inf

    def release(self) -> None:
        self._parents.release()
