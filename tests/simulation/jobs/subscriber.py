"""A subscriber of a simulated topic: by name or not, by epoch or event by event; and what it has to show for it."""

from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tests.kit.simulation.violation import ViolationError
from tests.simulation.delivery.subscriber import Habits, SubendNode
from tests.simulation.jobs.store import Store
from tidewheel.pubsub.exactly_once.subend import Order
from tidewheel.pubsub.exactly_once.subend_stream import SubendStream
from tidewheel.pubsub.messages.delivery_messages import Begun, Ranges
from tidewheel.pubsub.messages.events import Batch, End, Epoch, Event
from tidewheel.pubsub.protocol.epochs import EpochAssembler
from tidewheel.pubsub.protocol.subscriber import Subscriber as EventMaker
from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls
from tidewheel.pubsub.subscribers.subscription_options import DoneBatches, SubscriptionOptions

if TYPE_CHECKING:
    from tests.simulation.jobs.world import JobWorld

ROOM_BYTES = 600


class Manner(NamedTuple):
    """How somebody reads.

    Attributes:
        has_name: whether the subscription is durable.
        by_epoch: whether it reads whole epochs, or events.
        order: of messages of different partitions.
        is_slow: whether it takes some of what is there, and not all.
    """

    has_name: bool = True
    by_epoch: bool = True
    order: Order = "publisher"
    is_slow: bool = False


class _Calls(PubendCalls):
    """The calls of one life, which are answered at once."""

    def __init__(self, world: "JobWorld", name: str, reader: str, options: SubscriptionOptions) -> None:
        self._world = world
        self._name, self._reader, self.options = name, reader, options
        self.info = cast(Any, SimpleNamespace(name=world.topic.topic, partitions=world.publishers))

    def _call(self, partition: int, tick: int | None, *, again: bool, acknowledged: Ranges = ()) -> Any:
        subscribe = self._world.publishers[partition].subscribe
        durable = self.options.name is not None
        return subscribe(self._name, self._reader, tick, durable=durable, again=again, acknowledged=acknowledged)

    def _answer(self, partition: int, call: Any, make: object, deadline_s: float) -> Any:
        return call

    def subscribe_again(self, partition: int, tick: int) -> None:
        """Have a publisher that was started again go on with this reader."""
        self._call(partition, tick, again=True)

    def leave(self, acknowledged: Sequence[Ranges], over: object = ()) -> bool:
        """Tell publishers the last word of this reader."""
        everywhere = tuple(acknowledged) if len(acknowledged) > 1 else ()
        for publisher, ranges in zip(self._world.publishers, acknowledged, strict=True):
            publisher.unsubscribe(self._reader, ranges, everywhere)
        return True


class Subscriber(SubendNode):
    """A subscriber, which comes, dies, leaves and comes back.

    Args:
        world: where it is.
        name: its own, and that of its subscription if that has one.
        parent: a relay; None for the publishers.
        manner: how it reads.
        store: keeps what it has read, and checks it.

    Attributes:
        is_over: whether it has read the topic to its end.
    """

    core: Any
    _world: "JobWorld"

    def __init__(self, world: "JobWorld", name: str, parent: str | None, manner: Manner, store: Store) -> None:
        habits = Habits(keeps_cursor=False, is_durable=manner.has_name)
        super().__init__(world, name, parent, None, manner.order, habits)
        self.manner = manner
        self.store = store
        self.is_over = False
        self._dies_halfway = self._is_halfway = False
        self._events: deque[Event] = deque()
        self._epochs: deque[Epoch] = deque()

    # ------------------------------------------------------------------ coming and going

    def start(self) -> None:
        """Subscribe, or go on, once all publishers answer."""
        is_early = self._world.network.now_s < self.begins_s
        if self.is_over or is_early or self.core is not None or not self._are_there():
            return
        self._begun += 1
        self.reader = f"{self.name}, life {self._begun}"
        name = self.name if self.manner.has_name else None
        options = SubscriptionOptions(name, "auto", "earliest", self.order)
        self._calls = _Calls(self._world, name or self.reader, self.reader, options)
        begun: list[Begun] = self._calls.subscribe()
        domain = self._world.topic.domain
        self.core = SubendStream(
            self.reader, domain, begun, self.order, ROOM_BYTES, may_consolidate=not self.manner.has_name
        )
        self._maker = EventMaker(domain, len(begun), began=[one.first_frontiers for one in begun])
        self._assembler = EpochAssembler(domain)
        self._done = DoneBatches(self._world.topic.topic, self._acknowledge, "auto")
        self._events.clear()
        self._epochs.clear()
        self.store.begin([one.acknowledged for one in begun], is_new=not self.manner.has_name)

    def _are_there(self) -> bool:
        return all(node.is_there for node in self._world.pubends)

    def crash(self) -> None:
        """Lose everything but the store, and be away for a while."""
        self._go()
        self.is_over = False

    def _go(self) -> None:
        self.core = None
        self.begins_s = self._world.network.now_s + self._world.random.random()

    def leave(self) -> None:
        """Leave in good order, if all publishers answer."""
        if self.core is not None and self._are_there():
            self._done.settle()
            acknowledged = [self.core.acknowledged(number).ranges() for number in range(self._world.pubends_count)]
            self._calls.leave(acknowledged)
            self._go()
            self._world.notice(self, self.parent)

    def _subscribe_again(self, pubend: int) -> None:
        if self._world.pubends[pubend].is_there:
            self._calls.subscribe_again(pubend, self.core.acknowledged(pubend).prefix_end)
            self.core.reconnected()

    def look(self) -> None:
        """Do what is due."""
        if self.is_over:
            self.leave()
        if self._is_halfway:
            self._send_some_acks()
        super().look()

    def die_halfway(self) -> None:
        """Have this reader die while it acknowledges something that several partitions have parts of."""
        self._dies_halfway = True

    def _send_some_acks(self) -> None:
        self._is_halfway = False
        if self.core is not None:
            self._dies_halfway = False
            acks, random = self.core.acks(), self._world.random
            self._world.ask(self.child, self.parent, random.sample(acks, random.randrange(len(acks) + 1)))
            self._world.crash(self, random.random())

    # ------------------------------------------------------------------ reading; see `SubendSource` and `Subscription`

    def read(self) -> None:
        """Take what has come, and read some of it."""
        for fetched in self.core.fetch():
            for numbered in fetched.messages:
                self._events.extend(self._maker.receive(fetched.partition, numbered))
                self._acknowledge(self._maker.unseen)
                self._maker.unseen = []
        while not (self.manner.is_slow and self._world.random.random() < 0.4):
            if not (self._read_epoch() if self.manner.by_epoch else self._read_event()):
                break

    def acknowledge(self) -> None:
        """Ask for more, at times: that acknowledges what was read last."""
        if self._world.random.random() < 0.5:
            self._done.settle()

    def _acknowledge(self, batches: Sequence[tuple[int, int]]) -> None:
        for partition, number in batches:
            self.core.acknowledge(partition, number)
        if self._dies_halfway and len({partition for partition, _ in batches}) > 1:
            self._is_halfway = True

    def _read_event(self) -> bool:
        self._done.settle()
        if not self._events:
            return False
        event = self._events.popleft()
        self._done.give([event])
        if isinstance(event, End):
            self._end()
        else:
            self.store.see(event)
        return True

    def _read_epoch(self) -> bool:
        self._done.settle()
        while self._events and not self._epochs:
            event = self._events.popleft()
            if isinstance(event, End):
                self._end()
                return False
            if isinstance(event, Batch):
                self.store.check_order(event)
            self._done.pass_over(event)
            self._epochs.extend(self._assembler.receive(event))
        if not self._epochs:
            return False
        epoch = self._epochs.popleft()
        self._done.give([epoch])
        self.store.see_epoch(epoch)
        return True

    def _end(self) -> None:
        """Check what there is; it leaves at the next look."""
        if not all(map(self.core.is_done, range(self._world.pubends_count))):
            raise ViolationError("acknowledged", f"{self.name} is at the end, and has not acknowledged everything")
        self.store.check_end()
        self.is_over = True
