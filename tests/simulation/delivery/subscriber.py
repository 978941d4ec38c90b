"""A subscriber that may go and come back, and what it has had."""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tests.kit.exactly_once.subends import repeat_acks, waiting_bytes_of
from tests.simulation.delivery.filters import FILTERS, Multiple
from tests.simulation.delivery.kinds import Kinds
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.subend import Delivered, Order, Subend
from tidewheel.pubsub.messages.delivery_messages import Downstream, KnowledgeMessage, Stranger
from tidewheel.pubsub.messages.tick_set import TickSet

if TYPE_CHECKING:
    from tests.simulation.delivery.world import World

ROOM_BYTES = 120
HEARD_S = 2.0
"""All relays have heard of a pubend that was started again after so long."""
RETRY_S = 0.5


class Habits(NamedTuple):
    """How somebody reads.

    Attributes:
        keeps_cursor: he keeps what he has had together with where he was, so that both survive him. Who does not goes
            on from what the pubends have of his acknowledgements, and has what he did not acknowledge again.
        acknowledges_late: now and then, and in any order.
        reads_slowly: now and then.
        is_durable: the pubends keep the subscription while nobody reads. If they do not, who comes back begins anew.
    """

    keeps_cursor: bool = True
    acknowledges_late: bool = False
    reads_slowly: bool = False
    is_durable: bool = True


class SubendNode:
    """A subscriber.

    Attributes:
        had: what was delivered, in order, without what has to be delivered again.
        reader: the id of its present life.
        done: what the reader has acknowledged, in all its lives.
        lives: what was delivered in each life.
        most_waiting: how many bytes waited at most.
        begins_s: when he comes.
    """

    def __init__(
        self, world: "World", name: str, parent: str | None, where: Multiple | None, order: Order, habits: Habits
    ) -> None:
        self._world = world
        self.name, self.parent, self.where, self.order, self.habits = name, parent, where, order, habits
        self.core: Subend | None = None
        self.reader = ""
        self._begun = 0
        self._cursors = {number: TickSet() for number in range(world.pubends_count)}
        self._unacknowledged: list[Delivered] = []
        self.starts: dict[int, int] = {}
        self.had: list[Delivered] = []
        self.done: set[Delivered] = set()
        self.lives: list[list[Delivered]] = [[]]
        self.most_waiting = 0
        self.begins_s = 0.0

    @property
    def child(self) -> str:
        """The name of its connection, another one in each life."""
        return self.reader

    def start(self) -> None:
        """Subscribe, or go on, once all pubends are there; one that is not durable begins anew."""
        if not all(node.is_there for node in self._world.pubends):
            return
        if self.core is not None:
            self._world.notice(self, self.parent)
        starts = {}
        if not self.habits.is_durable:  # nobody keeps what an earlier life has not had
            self.where = self._world.random.choice([self.where, *FILTERS])
            self._cursors = {number: TickSet() for number in self._cursors}
            self._unacknowledged.clear()
            self.starts, self.had, self.done, self.lives = {}, [], set(), [[]]
        self._begun += 1
        self.reader = f"{self.name}, life {self._begun}"
        is_durable = self.habits.is_durable
        start = None if is_durable or self._world.random.random() < 0.5 else 0
        for number, node in enumerate(self._world.pubends):
            begin = node.subscribe(self._subscription, self.reader, start, durable=is_durable)
            self.starts.setdefault(number, TickSet(begin.acknowledged).prefix_end)
            if not self.habits.keeps_cursor:
                self._cursors[number] = TickSet()
            self._cursors[number].update(begin.acknowledged)
            starts[number] = replace(begin, acknowledged=self._cursors[number].ranges())
        keeps_all = self.habits.keeps_cursor
        self.had = [
            one for one in self.had if one.tick in self._cursors[one.pubend] and (keeps_all or one in self.done)
        ]
        self.lives.append([])
        self.core = Kinds.subend(
            self.reader,
            starts,
            len,
            order=self.order,
            room_bytes=ROOM_BYTES,
            idle_s=0.5,
            may_consolidate=not is_durable,
        )

    @property
    def _subscription(self) -> str:
        return self.name if self.habits.is_durable else self.reader

    def crash(self) -> None:
        """Lose everything but what was delivered."""
        self.core = None
        self._unacknowledged.clear()

    def look(self) -> None:
        """Do what is due."""
        if self.core is None and self._world.network.now_s >= self.begins_s:
            self.start()
        if self.core is None:
            return
        random = self._world.random
        awaits_silence = self.order == "total" or self.habits.is_durable  # so that there are both
        self._world.join(self.child, self.parent, self.where, awaits_silence=awaits_silence)
        if random.random() < 0.3:
            self.read()
            self.acknowledge()
        if random.random() < 0.2:
            repeat_acks(self.core)
        self._world.ask(self.child, self.parent, self.core.acks())
        self._world.ask(self.child, self.parent, self.core.ask(self._world.network.now_s))

    def receive(self, sender: str, message: Downstream) -> None:
        """Take what comes from upstream."""
        if self.core is None:
            return
        if isinstance(message, Stranger):
            if message.reader == self.reader:
                self._subscribe_again(message.pubend)
            return
        assert isinstance(message, KnowledgeMessage), message
        now_s = self._world.network.now_s
        try:
            self.core.receive(message, now_s)
        except DeliveryError:
            # A relay below another one has yet to hear what a pubend has again that was just started again.
            if now_s - max(node.started_s for node in self._world.pubends) > HEARD_S:
                raise
            self._world.crash(self, RETRY_S)
            return
        self.most_waiting = max(self.most_waiting, waiting_bytes_of(self.core))
        if not self.habits.reads_slowly:
            self.read()
        self._world.ask(self.child, self.parent, self.core.ask(self._world.network.now_s))

    def _subscribe_again(self, pubend: int) -> None:
        """Go on where this reader is, at a pubend that was started again."""
        assert not self.habits.is_durable, "who has a durable subscription is known"
        assert self.core is not None
        if self._world.pubends[pubend].is_there:
            position = self.core.acknowledged(pubend).prefix_end
            node = self._world.pubends[pubend]
            node.subscribe(self._subscription, self.reader, position, durable=False, again=True)
            self.core.reconnected()

    def read(self) -> None:
        """Take what is delivered."""
        assert self.core is not None
        for delivered in self.core.take():
            self.had.append(delivered)
            self.lives[-1].append(delivered)
            self._cursors[delivered.pubend].add(delivered.tick, delivered.tick + 1)
            self._unacknowledged.append(delivered)
        if not self.habits.acknowledges_late:
            self.acknowledge()

    def acknowledge(self) -> None:
        """Acknowledge what was delivered; if late, then some of it."""
        assert self.core is not None
        random = self._world.random
        if self.habits.acknowledges_late:
            random.shuffle(self._unacknowledged)
        for _ in range(len(self._unacknowledged)):
            if self.habits.acknowledges_late and random.random() < 0.2:
                break
            delivered = self._unacknowledged.pop(0)
            self.done.add(delivered)
            self.core.acknowledge(delivered.pubend, delivered.tick)

    def move(self, parent: str | None) -> None:
        """Go to another parent."""
        self.parent = parent
        if self.core is not None:
            self.core.reconnected()

    def expected(self) -> list[Delivered]:
        """Return what it has to have in the end, in the order of ticks."""
        found = [
            Delivered(number, tick, wanted)
            for number, node in enumerate(self._world.pubends)
            for tick, message in node.disk.published.items()
            if tick >= self.starts[number]
            and (wanted := message if self.where is None else self.where.of(message)) is not None
        ]
        return sorted(found, key=lambda delivered: delivered.tick)

    def missing(self) -> list[Delivered]:
        """Return what it has yet to have, and has not acknowledged in an earlier life."""
        return sorted(set(self.expected()) - set(self.had) - self.done)
