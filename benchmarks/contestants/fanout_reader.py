"""A subscriber as tidewheel has it, for `contestants/fanout_subscribers.py`: a thread reads it and many others.

It imports Ray.
"""

import uuid
from collections.abc import Callable, Sequence
from math import inf
from typing import TypeAlias

from benchmarks.measuring.pubsub_traffic import OVER
from tidewheel.host.ray_cluster import node_id, process_id
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.messages.delivery_messages import Begun
from tidewheel.pubsub.messages.encoded_message import decode_batch
from tidewheel.pubsub.messages.frames import Join
from tidewheel.pubsub.messages.wire import DataMessage
from tidewheel.pubsub.subscribers.parents import RESTARTS_WITHIN_S, Parent
from tidewheel.pubsub.subscribers.polled_parents import PolledParents
from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls
from tidewheel.pubsub.subscribers.subend_source import SubendSource
from tidewheel.pubsub.subscribers.subscription_options import SubscriptionOptions

Ring: TypeAlias = Callable[["SharedReader"], None]
Note: TypeAlias = Callable[[str, int, int], None]


class SharedParents(PolledParents):
    """The parents of a reader whose thread reads for others too."""

    def __init__(self, reader: "SharedReader", ring: Ring) -> None:
        self._rung = reader
        self._ring_thread = ring
        finds = {reader._partitions: reader._find_relay}
        super().__init__(reader._topic, reader._greeting, finds, reader, RESTARTS_WITHIN_S, is_eager=False)

    def ring(self) -> None:
        """Have the thread call `SharedReader.turn`."""
        self._ring_thread(self._rung)


class SharedReader(SubendSource):
    """One subscriber. It acknowledges each message as soon as it is delivered.

    Args:
        greeting, node, calls, begun: as for `SubendSource`.
        ring: has the thread call `turn`.
        note: called with its first parent, and the number and the time of sending of each message.

    Attributes:
        first_parent: the name of its first parent; empty until it is set.
        watched: the way to a parent that the thread polls.
        turn_at_s: when the thread calls `turn` if nothing comes.
    """

    def __init__(
        self,
        greeting: Join,
        node: str,
        calls: PubendCalls,
        begun: Sequence[Begun],
        ring: Ring,
        note: Note,
    ) -> None:
        self._note = note
        self._next = 0
        self.first_parent = ""
        self.watched: Parent | None = None
        self.turn_at_s = inf
        super().__init__(greeting, node, calls, begun)
        self._parents.release()
        self._parents = SharedParents(self, ring)

    def turn(self) -> None:
        """Do all that is due; raises DeliveryError if a message is lost for good, AssertionError if one is missing."""
        self._parents.listen()
        self._parents.check()
        while found := self.take():
            for fetched in found:
                for numbered in fetched.messages:
                    if isinstance(numbered.message, DataMessage):
                        self._deliver(numbered.message)
                        self._stream.acknowledge(fetched.partition, numbered.sequence)

    def _deliver(self, message: DataMessage) -> None:
        ((number, sent_ns, _),) = decode_batch(message)
        if number != (OVER if number == OVER else self._next):
            raise AssertionError(f"{self._greeting.name} has received message {number} and not {self._next}")
        self._next = 0 if number == OVER else number + 1
        self._note(self.first_parent, number, sent_ns)

    def next_s(self) -> float:
        """Return when `turn` has something to do if nothing comes."""
        return self._parents.due_s()

    @property
    def is_connected(self) -> bool:
        """Whether all its parents are found."""
        return all(kept.parent is not None for kept in self._parents.kept)

    @property
    def way(self) -> Parent | None:
        """The way to its parent; None without one."""
        return next((kept.parent for kept in self._parents.kept if kept.parent is not None), None)

    @property
    def parent_name(self) -> str:
        """The name of its relay as Ray shows it; empty if it reads from publishers."""
        return "" if self._relay is None else repr(self._relay)


def subscribed(info: TopicInfo, ring: Ring, note: Note) -> SharedReader:
    """Return a reader that the publishers know; its first `turn` looks for a relay."""
    life = uuid.uuid4().hex[:12]
    name = f"unnamed-{life}"
    greeting = Join(f"{process_id()}/{name}/{life}", None, awaits_silence=False)
    calls = PubendCalls(info, name, greeting.name, SubscriptionOptions())
    return SharedReader(greeting, node_id(), calls, calls.subscribe(), ring, note)
