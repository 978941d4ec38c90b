"""Relays of a topic: actors between its publishers and many subscribers, and their handle."""

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from tidewheel.host.log_lines import LogSettings
from tidewheel.host.ray_cluster import actor_class, left, membership, namespace, node_id
from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.delivery_messages import RELAY_PREFIX
from tidewheel.pubsub.subscribers.subscribing import find_topic

if TYPE_CHECKING:
    from tidewheel.pubsub.relays.relay_actor import RelayStatistics

_LOG = logging.getLogger(__name__)

STARTED_WITHIN_S: Final = 60.0
FULL_WITHIN_S: Final = 10.0
CLOSED_WITHIN_S: Final = 5.0
_ANSWERS_WITHIN_S = 10.0
_AGAIN_S = 1.0
_MOST_CALLS = 10_000

_RUNNING: "set[RelayHandle]" = set()
"""The open handles, kept here because Ray ends an actor without a handle, and a program may drop its `RelayHandle`."""


def relay(
    topic: str,
    nodes: Sequence[str] | None = None,
    *,
    count: int = 1,
    parents: "RelayHandle | None" = None,
    max_children: int | None = None,
    timeout_s: float = 10.0,
) -> "RelayHandle":
    """Start relays between a topic with exactly-once delivery and its subscribers.

    A new subscriber connects to the relay on its node with the fewest subscribers, or else to a relay on another node.
    Publishers send each message once to a relay. A relay keeps only state that it can request again. Ray restarts a
    dead relay, if needed on another node, and its subscribers continue with another relay. After the topic's end,
    relays wait for the next topic with this name. They end with the process that has started them.

    Args:
        topic: the name of the topic.
        nodes: the ids of the relays' nodes; by default all current nodes of the cluster.
        count: the number of relays on each node.
        parents: the relays of this topic to connect to, in turn; by default all connect to the publishers. If a parent
            is away for more than 5 s, the relay connects to the next parent, and finally to the publishers. Subscribers
            connect to the relays furthest from the publishers.
        max_children: when each relay on a node has so many children, another relay is started there. Its parent is the
            first relay that has fewer relays below it. By default no further relays are started.
        timeout_s: how long to wait for the topic to exist, in seconds.

    Raises:
        UnknownTopic: no job has published the topic in time.
        DeliveryError: the topic is best effort, a node does not exist, an argument is wrong, the parents serve another
            topic or are closed, or the relays do not start to serve.
    """
    numbers = {"count": count} | ({} if max_children is None else {"max_children": max_children})
    for what, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise DeliveryError(f"topic {topic!r}: {what} is a number, at least 1, not {number!r}")
    are_open = isinstance(parents, RelayHandle) and parents.topic == topic and not parents.is_closed
    if parents is not None and not are_open:
        raise DeliveryError(
            f"topic {topic!r}: parents is what tw.relay({topic!r}) has returned, with open relays, not {parents!r}"
        )
    info = LOCAL_CATALOG.lookup(topic) or find_topic(topic, timeout_s)
    if info.delivery != "exactly_once":
        raise DeliveryError(
            f"topic {topic!r} of job {info.job!r} is published best effort, and relays need exactly-once delivery. "
            "Run the job with engine='ray'. Publish it with log=tw.Log(place), or let its subscribers connect "
            "without relays",
            topic=topic,
        )
    above = [] if parents is None else parents.names
    depth = 0 if parents is None else parents.depth + 1
    chosen = [node for node in _nodes(topic, nodes) for _ in range(count)]
    turns = [at % max(1, len(above)) for at in range(len(chosen))]
    registries = [RelayRegistry(topic, above[turn:] + above[:turn], depth, max_children) for turn in turns]
    return RelayHandle(topic, list(map(_started, chosen, registries)), depth, max_children)


def _nodes(topic: str, nodes: Sequence[str] | None) -> list[str]:
    import ray

    living = [str(node["NodeID"]) for node in ray.nodes() if node["Alive"]]
    if nodes is None:
        return living
    if isinstance(nodes, str) or not nodes:
        raise DeliveryError(
            f"topic {topic!r}: nodes is a list of ids of nodes, not {nodes!r}; those there are: {living}"
        )
    for node in nodes:
        if node not in living:
            raise DeliveryError(f"topic {topic!r}: there is no node {node!r} in the cluster; those there are: {living}")
    return list(nodes)


def _started(node: str, registry: "RelayRegistry") -> tuple[str, Any]:
    from tidewheel.pubsub.relays.relay_actor import RelayActor

    name = f"{RELAY_PREFIX}{uuid.uuid4().hex[:12]}"
    named = {"name": name, "namespace": namespace()}
    # Ray ignores a soft NodeAffinitySchedulingStrategy, which would be enough, when a node is slightly late.
    there, anywhere = ({"label_selector": selector} for selector in ({"ray.io/node-id": node}, {}))
    restarts = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": 0}
    actor = actor_class(RelayActor).options(
        **there, **restarts, **named, fallback_strategy=[anywhere], max_concurrency=_MOST_CALLS
    )
    return name, actor.remote(name, registry, logs=LogSettings.here(topic=registry._topic, relay=name))


class RelayHandle:
    """Relays that this process has started; a context manager that ends them.

    Attributes:
        topic: the relays' topic.
        actors: the handles of their actors, including relays started later.
        names: their names, which are also the names of their actors.
        depth: the number of relays between them and the publishers.
    """

    def __init__(
        self, topic: str, relays: Sequence[tuple[str, Any]], depth: int = 0, max_children: int | None = None
    ) -> None:
        self.topic = topic
        self.depth = depth
        self._joined = membership()
        self.actors = [actor for _, actor in relays]
        self.names = [name for name, _ in relays]
        self._depths = [depth] * len(relays)
        self.is_closed = False
        _RUNNING.add(self)
        try:
            self._wait()
        except BaseException:
            self.close()
            raise
        if max_children is not None:
            threading.Thread(target=self._grow, args=[max_children], name="tidewheel-relays", daemon=True).start()

    def _wait(self) -> None:
        answers = self._ask("serves", STARTED_WITHIN_S, within_s=STARTED_WITHIN_S)
        late = sum(answer is not True for answer in answers)
        if late:
            raise DeliveryError(
                f"topic {self.topic!r}: {late} of {len(answers)} relays do not serve it after {STARTED_WITHIN_S:g} s; "
                "the logs of their processes say more",
                topic=self.topic,
            )

    def _grow(self, most: int) -> None:
        import ray

        with suppress(Exception):  # the cluster may have ended
            while not (self.is_closed or left(self._joined)):
                answers = enumerate(self._ask("statistics", within_s=CLOSED_WITHIN_S))
                living = [(place, one) for place, one in answers if not isinstance(one, Exception)]
                has_room = [self.actors[place] for place, one in living if one.children < most]
                full = {one.node for _, one in living} - {one.node for _, one in living if one.children < most}
                for node in full:
                    here = [place for place, one in living if one.node == node]
                    self._start_below(here[(len(here) - 1) // most], node, most)
                if not full:
                    calls = [actor.is_full.remote(most, FULL_WITHIN_S) for actor in has_room]
                    ray.wait(calls, timeout=FULL_WITHIN_S) if calls else time.sleep(_AGAIN_S)

    def _start_below(self, parent: int, node: str, most: int) -> None:
        import ray

        depth = self._depths[parent] + 1
        name, actor = _started(node, RelayRegistry(self.topic, [self.names[parent]], depth, most))
        with suppress(ray.exceptions.RayError):
            if ray.get(actor.serves.remote(STARTED_WITHIN_S), timeout=STARTED_WITHIN_S):
                self.names.append(name)
                self._depths.append(depth)
                self.actors.append(actor)
                if not self.is_closed:
                    return
        if not self.is_closed:
            _LOG.warning("topic %r: a further relay does not serve it after %g s", self.topic, STARTED_WITHIN_S)
        ray.kill(actor)

    def statistics(self) -> "list[RelayStatistics]":
        """Return the counts of each relay since its last start; leave out relays that are closed or do not answer."""
        answers = [] if self.is_closed else self._ask("statistics", within_s=CLOSED_WITHIN_S)
        return [answer for answer in answers if not isinstance(answer, Exception)]

    def close(self) -> None:
        """End the relays; their subscribers continue without them; idempotent."""
        import ray

        from tidewheel.pubsub.catalog.catalog_actor import find_catalog

        _RUNNING.discard(self)
        was_closed, self.is_closed = self.is_closed, True
        if was_closed or left(self._joined):
            return
        with suppress(Exception):  # the catalog forgets the relays by itself, a little later
            catalog = find_catalog()
            if catalog is not None:
                forgotten = [catalog.forget_relay.remote(name) for name in self.names]
                ray.get(forgotten, timeout=_ANSWERS_WITHIN_S)
        self._ask("close", within_s=CLOSED_WITHIN_S)
        for actor in self.actors:
            with suppress(Exception):  # the cluster may have ended
                ray.kill(actor)

    def _ask(self, method: str, *arguments: Any, within_s: float) -> list[Any]:
        import ray

        deadline_s = time.monotonic() + within_s
        calls = [getattr(actor, method).remote(*arguments) for actor in self.actors]
        answers: list[Any] = []
        for call in calls:
            try:
                answers.append(ray.get(call, timeout=max(0.0, deadline_s - time.monotonic())))
            except ray.exceptions.RayError as error:
                _LOG.debug("a relay of topic %r has not answered: %s", self.topic, error)
                answers.append(error)
        return answers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RelayHandle({self.topic!r}, {len(self.actors)} relays)"


@dataclass(frozen=True, slots=True)
class TopicLife:
    """One registration of a topic that a relay serves.

    Args:
        parents: the actors to connect to: all pubends, or one relay.
    """

    registration: str
    pubends: int
    parents: tuple[Any, ...]
    is_below_relay: bool = False


class RelayRegistry:
    """The calls to the catalog for the relays of one topic; they never start a catalog.

    Args:
        above: the names of possible parent relays, the preferred one first; empty if the publishers are the parents.
        depth: the number of relays between these relays and the publishers.
        max_children: the number of children from which on subscribers connect elsewhere; None for no limit.
    """

    def __init__(self, topic: str, above: Sequence[str] = (), depth: int = 0, max_children: int | None = None) -> None:
        self._topic = topic
        self._above = list(above)
        self._depth = depth
        self._most_children = max_children
        self._catalog: Any = None

    @property
    def node(self) -> str:
        return node_id()

    async def life(self, timeout_s: float) -> TopicLife | None:
        """Wait until the topic is registered; return None after ``timeout_s`` seconds, or for a best-effort topic.

        Raises:
            DeliveryError: there is no catalog, or it does not answer.
        """
        info: TopicInfo | None = await self._ask("lookup", self._topic, timeout_s, within_s=timeout_s)
        if info is None or info.delivery != "exactly_once":
            return None
        above = self._parent()
        parents = info.partitions if above is None else (above,)
        return TopicLife(info.registration, len(info.partitions), parents, above is not None)

    def _parent(self) -> Any | None:
        import ray

        while self._above:
            try:
                return ray.get_actor(self._above[0], namespace=namespace())
            except ValueError:  # it is closed
                self.leave_parent()
        return None

    def leave_parent(self) -> None:
        """Let `life` return the next parent; this has an effect only with parent relays."""
        del self._above[:1]

    async def announce(self, name: str, registration: str, children: int) -> bool:
        """Announce a relay for a registration of the topic; return False if the topic now has another registration.

        Raises:
            DeliveryError: there is no catalog, or it does not answer.
        """
        import ray

        from tidewheel.pubsub.catalog.catalog_actor import RelayInfo

        actor = ray.get_runtime_context().current_actor
        node, most = self.node, self._most_children
        relay = RelayInfo(name, self._topic, registration, node, actor, children, self._depth, most)
        return bool(await self._ask("announce", relay))

    async def _ask(self, method: str, *arguments: Any, within_s: float = 0.0) -> Any:
        from tidewheel.pubsub.catalog.catalog_actor import find_catalog

        try:
            self._catalog = self._catalog or find_catalog()
            async with asyncio.timeout(within_s + _ANSWERS_WITHIN_S):
                return await getattr(self._catalog, method).remote(*arguments)
        except Exception as error:  # Ray has many, and there may be no catalog at all
            self._catalog = None
            raise DeliveryError(f"the catalog of topics does not answer: {error}") from error
