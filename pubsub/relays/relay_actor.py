"""The actor around a `Relay`: a child of pubends or of another relay, with children of its own.

It is an asyncio actor, and everything runs on its loop. Only the code that starts it imports Ray. It keeps only state
that it can request again: after a restart it has none, and its children connect again.
"""

import asyncio
import logging
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Final

from tidewheel.host.background_turns import BackgroundTurns
from tidewheel.host.log_lines import LogSettings
from tidewheel.host.process_memory import collect_rarely, keep_freed_memory
from tidewheel.progress import ProtocolError
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.relay import CACHE_BYTES, Relay
from tidewheel.pubsub.exactly_once.waiting_nacks import WaitingNacks
from tidewheel.pubsub.messages.delivery_messages import Downstream, KnowledgeMessage, Nack, Upstream, joined
from tidewheel.pubsub.messages.frames import CODEC, ChildMessage, Join, Told
from tidewheel.pubsub.messages.wire import Rejected
from tidewheel.pubsub.relays.relay_handle import RelayRegistry, TopicLife
from tidewheel.pubsub.relays.relay_parent import RelayParent
from tidewheel.pubsub.subscribers.parents import ParentGone
from tidewheel.transport.change_signal import ChangeSignal
from tidewheel.transport.children import Children
from tidewheel.transport.stream_link import WAITING_BYTES
from tidewheel.transport.tickets import SocketOffer, TicketListener

_LOG = logging.getLogger(__name__)

FLUSH_S: Final = 0.1
"""The longest time for which silence and acknowledgements wait in a relay, in seconds."""

ANNOUNCE_S: Final = 2.0
"""The time between two announcements of a relay to the catalog, in seconds."""

SIGN_OF_LIFE_S: Final = 5.0
"""The seconds between two reports of a relay's readers, which send nothing themselves without news."""

_AGAIN_S = 0.5
_LIFE_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class RelayStatistics:
    """The counts of one relay since its start.

    Attributes:
        dropped: messages dropped for children that did not read; the children ask for them again.
        nacks_asked: the number of the relay's own nacks.
    """

    node: str
    children: int
    parents: int
    messages: int
    dropped: int
    nacks_heard: int
    nacks_asked: int
    cached_bytes: int
    waiting_bytes: int


class RelayActor:
    """One relay of a topic. Make it on a running loop; it starts immediately.

    Args:
        name: a unique name that begins with `RELAY_PREFIX`.
        cache_bytes: how many bytes of the latest messages it keeps for each pubend.
    """

    def __init__(
        self,
        name: str,
        registry: RelayRegistry,
        cache_bytes: int = CACHE_BYTES,
        waiting_bytes: int = WAITING_BYTES,
        logs: LogSettings | None = None,
    ) -> None:
        keep_freed_memory()
        if logs is not None:  # the process is the relay's own
            collect_rarely()
            logs.use()
        self._name = name
        self._registry = registry
        self._node = registry.node
        self._cache_bytes = cache_bytes
        self._loop = asyncio.get_running_loop()
        self._children = Children(CODEC, self._loop, self._hear, self._gone, waiting_bytes)
        self._listener: TicketListener[str] = TicketListener(self._node, self._admitted)
        self._relay: Relay | None = None
        self._is_announced = False
        self._pubends = 0
        self._life: TopicLife | None = None
        self._parents: list[RelayParent] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._changed = ChangeSignal()
        self._alive_s = 0.0
        self._messages = self._nacks_heard = self._nacks_asked = 0
        self._nacks = WaitingNacks()
        self._answering = BackgroundTurns(self._loop, self._answer, lambda: self._messages)
        self._running = self._loop.create_task(self._run())

    # ------------------------------------------------------------------ calls

    async def attach(self, child: str, registration: str | None = None) -> SocketOffer:
        """Return the address at which a relay or subend on this node can connect.

        Raises:
            ParentGone: the relay serves no topic, or a topic with another ``registration``.
        """
        self._check()
        if registration is not None and (self._life is None or self._life.registration != registration):
            raise ParentGone(f"{self._name} serves another life of the topic")
        return self._listener.offer(child)

    async def talk(self, child: str, said: list[ChildMessage], wait_s: float) -> list[Told]:
        """Receive messages from a child without a socket; return messages for it, after at most ``wait_s``.

        Raises:
            ParentGone: the relay serves no topic.
            ProtocolError: the child is unknown, and must join first.
        """
        self._check()
        return await self._children.talk(child, said, wait_s)

    async def serves(self, timeout_s: float) -> bool:
        def does_serve() -> bool:
            return self._is_announced and bool(self._parents) and all(kept.parent is not None for kept in self._parents)

        return await self._changed.wait_until(does_serve, timeout_s)

    async def is_full(self, max_children: int, timeout_s: float) -> bool:
        return await self._changed.wait_until(lambda: len(self._children) >= max_children, timeout_s)

    async def statistics(self) -> RelayStatistics:
        return RelayStatistics(
            node=self._node,
            children=len(self._children),
            parents=sum(kept.parent is not None for kept in self._parents),
            messages=self._messages,
            dropped=self._children.dropped,
            nacks_heard=self._nacks_heard,
            nacks_asked=self._nacks_asked,
            cached_bytes=0 if self._relay is None else self._relay.cached_bytes,
            waiting_bytes=self._children.waiting_bytes,
        )

    async def close(self) -> None:
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
        self._listener.close()

    def _check(self) -> None:
        if self._relay is None:
            raise ParentGone(f"{self._name} is not connected to a topic")

    # ------------------------------------------------------------------ one life of the topic after the other

    async def _run(self) -> None:
        while True:
            try:
                life = await self._registry.life(_LIFE_WAIT_S)
                if life is not None:
                    await self._serve(life)
            except DeliveryError as error:
                _LOG.debug("%s has no answer: %s", self._name, error)
            except Exception:  # noqa: BLE001 - otherwise the relay would be there and do nothing
                _LOG.exception("%s has failed, and begins anew", self._name)
            await asyncio.sleep(_AGAIN_S)

    async def _serve(self, life: TopicLife) -> None:
        self._begin(life)
        try:
            while await self._is_current(life):  # noqa: ASYNC110 - each round announces the relay
                await asyncio.sleep(ANNOUNCE_S)
        finally:
            self._end()

    def _begin(self, life: TopicLife) -> None:
        _LOG.debug("%s begins for %s", self._name, life.registration)
        self._pubends = life.pubends
        self._relay = Relay(life.pubends, attrgetter("size_bytes"), cache_bytes=self._cache_bytes)
        self._alive_s = self._loop.time()
        self._connect(life)
        self._flush()

    def _connect(self, life: TopicLife) -> None:
        assert self._relay is not None, "it is for a topic"
        self._life = life
        for parent in self._parents:
            parent.close()
        greeting = Join(self._name, self._relay.wanted.union)
        self._parents = []
        for number, actor in enumerate(life.parents):
            pubend = number if len(life.parents) == life.pubends else None
            calls = partial(self._told, pubend), partial(self._reconnected, pubend)
            registration = life.registration if life.is_below_relay else None
            self._parents.append(RelayParent(actor, greeting, self._node, *calls, registration))

    async def _is_current(self, life: TopicLife) -> bool:
        try:
            self._is_announced = await self._registry.announce(self._name, life.registration, len(self._children))
            self._changed.notify()
            if self._is_announced and any(parent.is_away(self._loop.time()) for parent in self._parents):
                self._registry.leave_parent()
                now = await self._registry.life(0.0)
                if now is None or now.registration != life.registration:
                    return False
                if now != self._life:
                    _LOG.info("%s goes to another parent: %s", self._name, self._parents[0].why_lost)
                    self._connect(now)
                return True
        except DeliveryError as error:
            _LOG.debug("%s has no answer: %s", self._name, error)
            return True
        return self._is_announced

    def _end(self) -> None:
        self._relay = None
        self._nacks = WaitingNacks()
        self._is_announced = False
        if self._flushing is not None:
            self._flushing.cancel()
        self._children.close()
        for parent in self._parents:
            parent.close()
        self._parents = []

    # ------------------------------------------------------------------ parents

    def _told(self, pubend: int | None, told: list[Downstream]) -> None:
        relay, now_s = self._relay, self._loop.time()
        if relay is None:
            return
        is_rejected = False
        for message in joined(told):
            if message.pubend != pubend and (pubend is not None or not 0 <= message.pubend < self._pubends):
                raise ProtocolError(f"it tells of pubend {message.pubend} of {self._pubends}")
            self._children.tell(relay.receive(message, now_s))
            if isinstance(message, KnowledgeMessage):
                self._messages += len(message.data)
            is_rejected = is_rejected or isinstance(message, Rejected)
        if is_rejected:
            # Current children know of the rejection. The parent may accept this relay again, which may then accept new
            # children.
            self._parent_of(told[0].pubend).drop()

    def _reconnected(self, pubend: int | None) -> list[Upstream]:
        self._loop.call_soon(self._changed.notify)
        return [] if self._relay is None else self._counted(self._relay.reconnected(self._loop.time(), pubend))

    def _parent_of(self, pubend: int) -> RelayParent:
        return self._parents[pubend if len(self._parents) == self._pubends else 0]

    def _say(self, messages: list[Upstream]) -> None:
        for message in self._counted(messages):
            self._parent_of(message.pubend).say([message])

    def _counted(self, messages: list[Upstream]) -> list[Upstream]:
        self._nacks_asked += sum(isinstance(message, Nack) for message in messages)
        return messages

    # ------------------------------------------------------------------ children

    def _admitted(self, connection: socket.socket, child: str) -> None:
        if self._relay is None:
            connection.close()
        else:
            self._children.connect(child, connection)

    def _hear(self, child: str, said: list[ChildMessage]) -> None:
        relay = self._relay
        if relay is None:
            return
        for message in said:
            if isinstance(message, Join):
                relay.join(child, message.where, awaits_silence=message.awaits_silence)
                self._ask_for_wanted(relay)  # before the child's questions
                self._changed.notify()
            elif not 0 <= message.pubend < self._pubends:
                self._reject(child, f"it spoke of pubend {message.pubend}, and there are {self._pubends}")
                return
            elif isinstance(message, Nack):
                self._nacks_heard += 1
                self._nacks.add(child, message)
                self._answering.wake()
            else:
                self._children.tell(relay.ack(child, message))

    def _answer(self) -> bool:
        waiting = self._nacks.take()
        if waiting is not None and self._relay is not None:
            told, asked = self._relay.nack(*waiting, self._loop.time())
            self._children.tell(told)
            self._say(asked)
        return bool(self._nacks)

    def _ask_for_wanted(self, relay: Relay) -> None:
        if relay.wanted.is_due:
            relay.wanted.is_due = False
            for parent in self._parents:
                parent.greet_again(Join(self._name, relay.wanted.union))

    def _reject(self, child: str, reason: str) -> None:
        _LOG.warning("%s: %s: %s", self._name, child, reason)
        self._children.tell([Outgoing(child, Rejected(0, reason))])
        self._gone(child, reason)

    def _gone(self, child: str, why: str) -> None:
        _LOG.debug("%s: %s: %s", self._name, child, why)
        self._nacks.leave(child)
        if self._relay is not None:
            self._relay.leave(child)

    def _flush(self) -> None:
        assert self._relay is not None, "it is for a topic"
        now_s = self._loop.time()
        if now_s - self._alive_s >= SIGN_OF_LIFE_S:
            self._alive_s = now_s
            self._relay.show_life()
        self._ask_for_wanted(self._relay)
        told, acks = self._relay.flush()
        self._children.tell(told)
        self._children.show_life()
        self._say(acks)
        self._flushing = self._loop.call_later(FLUSH_S, self._flush)
