"""Pubends, relays and subends on a network where everything may go wrong, and what each subscriber has had."""

from collections.abc import Callable
from functools import partial
from math import inf
from random import Random
from typing import Any

from tests.kit.exactly_once.subends import FRONTIERS
from tests.simulation.delivery.filters import Multiple
from tests.simulation.delivery.kinds import Kinds
from tests.simulation.delivery.subscriber import Habits, SubendNode
from tests.simulation.disk import MESSAGE, RESERVATION, DiskRecords
from tests.simulation.network import Network
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.living_readers import LivingReaders
from tidewheel.pubsub.exactly_once.pubend import Pubend
from tidewheel.pubsub.exactly_once.relay import Relay
from tidewheel.pubsub.exactly_once.subend import Order
from tidewheel.pubsub.messages.delivery_messages import (
    Ack,
    Begun,
    ConsolidatedAck,
    Downstream,
    Nack,
    Stranger,
    Upstream,
)
from tidewheel.pubsub.messages.filters import Filter

TICKS_A_SECOND = 1_000_000
LOOK_S = 0.1
SLOWEST_SYNC_S = 0.1
CLOCK_BACK_S = 1.0
HOUR_S = 3600.0
BEGIN_S = 100 * HOUR_S
"""The time of right clocks at the beginning."""
AHEAD = 2 * TICKS_A_SECOND
PROMISED = TICKS_A_SECOND // 10
"""Half as many as in reality, as subends also ask after half the time without a message."""
CACHE_BYTES = 60
PAUSED_S = 0.1
LEASE_S = 5.0
NOTICED_S = 1.0
TRIMMED = 0.1
"""The chance that a disk is trimmed at a look: it has for a while what its pubend has forgotten."""


class PubendNode:
    """A pubend with its disk, which survives it."""

    def __init__(self, world: "World", number: int, pubends: int, clock_s: float) -> None:
        self._world = world
        self._number, self._pubends = number, pubends
        self.name = f"pubend {number}"
        self.disk = DiskRecords()
        self.core: Pubend | None = None
        self._is_syncing = False
        self.started_s = -inf
        self._clock_s = clock_s
        self._forgets_from_s = 0.0
        self.is_paused = False
        self.nacks = 0
        self.start()

    @property
    def is_there(self) -> bool:
        """Whether its process runs, and is not paused."""
        return self.core is not None and not self.is_paused

    def start(self) -> None:
        """Begin, or go on from what is on the disk."""
        disk, self.started_s = self.disk, self._world.network.now_s
        self.core = Kinds.pubend(
            self._number,
            self._pubends,
            disk,
            len,
            cache_bytes=CACHE_BYTES,
            next_tick=disk.next_tick,
            first_tick=disk.removed_end,
            lost_end=disk.lost_end,
        )
        self.subscriptions = Kinds.subscriptions(self.core, disk.standings, self.name)
        self._living = LivingReaders(self.subscriptions.known, LEASE_S, inf)
        self._is_syncing = False
        self.tell(self.core.be_silent(self._now))

    def crash(self) -> None:
        """Lose everything but the disk; and the clock may have been set back by the next start."""
        self.core = None
        self.step_clock(-CLOCK_BACK_S * self._world.random.random())
        self._forgets_from_s = self._world.network.now_s + LEASE_S
        self.disk.crash(self._world.random)

    def step_clock(self, by_s: float) -> None:
        """Have the clock of its node go wrong."""
        self._clock_s += by_s

    def publish(self, message: bytes) -> None:
        """Publish; nothing, while there is no process."""
        if self.core is None or self.is_paused:
            return
        for tick, assigned in self.core.assign([message], self._now):
            self.disk.write(MESSAGE, tick, assigned)
        self._sync_soon()

    @property
    def _now(self) -> int:
        return int((BEGIN_S + self._world.network.now_s + self._clock_s) * TICKS_A_SECOND)

    def _sync_soon(self) -> None:
        if not self._is_syncing and self.disk.unsynced and self.core is not None:
            self._is_syncing = True
            core, records = self.core, self.disk.unsynced
            self._world.network.at(self._world.random.random() * SLOWEST_SYNC_S, lambda: self._synced(core, records))

    def _synced(self, core: Pubend, records: int) -> None:
        if core is not self.core:
            return
        if self.is_paused:
            self._world.network.at(PAUSED_S, lambda: self._synced(core, records))
            return
        synced = self.disk.sync(records)
        self._is_syncing = False
        for kind, tick, _ in synced:
            if kind == RESERVATION:
                core.reserved(tick)
                self._be_silent(core)
        ticks = [tick for kind, tick, _ in synced if kind == MESSAGE]
        if ticks:
            self.tell(core.logged(ticks[-1]))
        self._sync_soon()

    def look(self) -> None:
        """Do what is due."""
        if self.core is None or self.is_paused:
            return
        self._be_silent(self.core)
        now_s = self._world.network.now_s
        for name in self._living.look((), now_s).over:
            self.subscriptions.end(name)
        if now_s >= self._forgets_from_s:
            forgotten = self.core.forget(self.subscriptions.needed_from)
            if self._world.random.random() < TRIMMED:
                self.disk.trim(forgotten)

    def _be_silent(self, core: Pubend) -> None:
        until = core.reserve(self._now, AHEAD)
        if until is not None:
            self.disk.write(RESERVATION, until)
            self._sync_soon()
        self.tell(core.be_silent(self._now, PROMISED))

    def receive(self, sender: str, message: Upstream) -> None:
        """Take what a child says."""
        if self.core is None or self.is_paused:
            return
        if isinstance(message, Nack):
            self.nacks += 1
            self.tell(self.core.nack(sender, message))
            if self.core.wanted_end > self.core.told_end:
                self._be_silent(self.core)
        else:
            strangers = self.subscriptions.ack(message, sender)
            for reader in message.acks if isinstance(message, Ack) else [sender]:
                self._living.heard(self.subscriptions.name_of(reader) or "", self._world.network.now_s)
            self._note()
            self.tell([Outgoing(sender, Stranger(self._number, reader)) for reader in strangers])

    def subscribe(
        self, name: str, reader: str, start: int | None = None, *, durable: bool = True, again: bool = False
    ) -> Begun:
        """Take on a subscription, or go on with the one there is, and give it to a reader."""
        begun = self.subscriptions.subscribe(name, reader, start, lambda _: FRONTIERS, durable=durable, again=again)
        self._living.seat(name, self._world.network.now_s)
        self._note()
        return begun

    def _note(self) -> None:
        """Have it durable where subscriptions are, and who has them."""
        due = self.subscriptions.due()
        for cursor in due:
            self.disk.write_cursor(cursor)
        self.disk.sync(0)
        self.subscriptions.logged(due)

    def join(self, child: str, where: Any, *, awaits_silence: bool) -> None:
        """Take on a child."""
        if self.core is not None and not self.is_paused:
            self.core.fanout.join(child, where, awaits_silence=awaits_silence)

    def leave(self, child: str) -> None:
        """Forget a child."""
        if self.core is not None and not self.is_paused:
            self.core.fanout.leave(child)
            self.subscriptions.lost(child)

    def tell(self, outgoing: list[Outgoing]) -> None:
        """Send to children."""
        self._world.tell(self.name, outgoing)


class RelayNode:
    """A relay."""

    def __init__(self, world: "World", name: str, parent: str | None) -> None:
        self._world = world
        self.name, self.parent = name, parent
        self.core: Relay | None = None
        self.most_cached = 0
        self.nacks = 0
        self.start()

    @property
    def child(self) -> str:
        """Its name as a child."""
        return self.name

    def start(self) -> None:
        """Begin, knowing nothing."""
        world = self._world
        self.core = Kinds.relay(world.pubends_count, world.size_of, cache_bytes=world.cache_bytes)

    def crash(self) -> None:
        """Lose everything."""
        self.core = None

    def look(self) -> None:
        """Do what is due."""
        if self.core is None:
            return
        if self._world.random.random() < 0.1:
            self.core.show_life()
        self._world.join(self.name, self.parent, self.core.wanted.union)
        told, asked = self.core.flush()
        self._world.tell(self.name, told)
        self._world.ask(self.name, self.parent, asked)

    def receive(self, sender: str, message: Upstream | Downstream) -> None:
        """Take what comes from either side."""
        if self.core is None:
            return
        now_s = self._world.network.now_s
        if isinstance(message, Nack):
            self.nacks += 1
            told, asked = self.core.nack(sender, message, now_s)
            self._world.tell(self.name, told)
            self._world.ask(self.name, self.parent, asked)
        elif isinstance(message, Ack | ConsolidatedAck):
            self._world.tell(self.name, self.core.ack(sender, message))
        else:
            self._world.tell(self.name, self.core.receive(message, now_s))
            self.most_cached = max(self.most_cached, self.core.cached_bytes)

    def join(self, child: str, where: Any, *, awaits_silence: bool) -> None:
        """Take on a child, and have the parents know at once what it wants."""
        if self.core is not None:
            self.core.join(child, where, awaits_silence=awaits_silence)
            if self.core.wanted.is_due:
                self.core.wanted.is_due = False
                self._world.join(self.name, self.parent, self.core.wanted.union)

    def leave(self, child: str) -> None:
        """Forget a child."""
        if self.core is not None:
            self.core.leave(child)

    def move(self, parent: str | None) -> None:
        """Go to another parent."""
        self.parent = parent
        if self.core is not None:
            self._world.ask(self.name, parent, self.core.reconnected(self._world.network.now_s))


class World:
    """All of it.

    Args:
        random: where all chance comes from.
        network: what carries messages.
        pubends: how many.

    Attributes:
        largest: how many bytes a message may have.
        size_of: returns how many bytes a message has.
        cache_bytes: how many bytes of messages a relay keeps, of each pubend.
    """

    size_of: Callable[[Any], int] = len
    cache_bytes = CACHE_BYTES

    def __init__(self, random: Random, network: Network, pubends: int) -> None:
        self.random = random
        self.network = network
        self.largest = 0
        self.pubends_count = pubends
        clocks_s = [random.choice([0.0, 0.0, 0.0, HOUR_S]) for _ in range(pubends)]
        self.pubends = [self.pubend(number, clock_s) for number, clock_s in enumerate(clocks_s)]
        self.relays: dict[str, RelayNode] = {}
        self.subends: dict[str, SubendNode] = {}

    def pubend(self, number: int, clock_s: float) -> PubendNode:
        """Return a pubend whose clock shows another time than a right one."""
        return PubendNode(self, number, self.pubends_count, clock_s)

    def add_relay(self, parent: str | None) -> str:
        """Add a relay under another, or under the pubends."""
        name = f"relay {len(self.relays)}"
        self.relays[name] = RelayNode(self, name, parent)
        return name

    def add_subend(
        self,
        parent: str | None,
        where: Multiple | None,
        order: Order,
        habits: Habits = Habits(),  # noqa: B008
    ) -> SubendNode:
        """Add a subscriber under a relay, or under the pubends."""
        name = f"subend {len(self.subends)}"
        self.subends[name] = SubendNode(self, name, parent, where, order, habits)
        return self.subends[name]

    @property
    def nodes(self) -> "list[PubendNode | RelayNode | SubendNode]":
        """All that can crash."""
        return [*self.pubends, *self.relays.values(), *self.subends.values()]

    def look(self) -> None:
        """Have every node do what is due, again and again."""
        for node in self.nodes:
            node.look()
        self.network.at(LOOK_S, self.look)

    def crash(self, node: "PubendNode | RelayNode | SubendNode", for_s: float) -> None:
        """Crash a node, which starts again after a while."""
        if node.core is not None:
            node.crash()
            self.network.at(for_s, node.start)
            if not isinstance(node, PubendNode):
                self.notice(node, node.parent)

    def pause(self, node: PubendNode, for_s: float) -> None:
        """Have a pubend do nothing for a while, and hear nothing."""
        node.is_paused = True
        self.network.at(for_s, partial(setattr, node, "is_paused", False))

    def move(self, node: "RelayNode | SubendNode", parent: str | None) -> None:
        """Have a node go to another parent, which the one before notices at once, or later."""
        if node.parent == parent:
            return
        for left in self._parents(node.parent):
            self.network.send(node.name, left.name, partial(left.leave, node.child))
        self.notice(node, node.parent)
        node.move(parent)

    def notice(self, node: "RelayNode | SubendNode", parent: str | None) -> None:
        """Have parents notice after a while that the connection to a node is gone; it may have connected anew."""
        for left in self._parents(parent):
            self.network.at(NOTICED_S, partial(left.leave, node.child))

    def _parents(self, parent: str | None) -> "list[PubendNode] | list[RelayNode]":
        return self.pubends if parent is None else [self.relays[parent]]

    # What nodes say to each other

    def tell(self, sender: str, outgoing: list[Outgoing]) -> None:
        """Send messages downstream; what is on its way to a child whose connection is gone is lost."""
        for child, message in outgoing:
            receiver = self.relays.get(child) or self.subends[node_of(child)]
            self.network.send(node_of(sender), receiver.name, partial(self._hear, sender, receiver, child, message))

    def _hear(self, sender: str, receiver: "RelayNode | SubendNode", child: str, message: Downstream) -> None:
        if receiver.child == child:
            receiver.receive(sender, message)

    def ask(self, sender: str, parent: str | None, messages: list[Upstream]) -> None:
        """Send messages upstream."""
        for message in messages:
            receiver = self.pubends[message.pubend] if parent is None else self.relays[parent]
            self._send(sender, receiver, message)

    def join(self, child: str, parent: str | None, where: Filter | None, *, awaits_silence: bool = True) -> None:
        """Tell those upstream that a child is there."""
        for receiver in self._parents(parent):
            join = partial(receiver.join, child, where, awaits_silence=awaits_silence)
            self.network.send(node_of(child), receiver.name, join)

    def _send(self, sender: str, receiver: Any, message: Any) -> None:
        self.network.send(node_of(sender), receiver.name, lambda: receiver.receive(sender, message))


def node_of(child: str) -> str:
    """Return the name of the node that has a connection of this name."""
    return child.partition(",")[0]
