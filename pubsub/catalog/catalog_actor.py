"""The catalog of one Ray namespace: a named, detached actor around a `Catalog`, and the calls to it.

The catalog watches all publishers, retracts the topics of dead publishers, and checks again before it returns a topic.
It keeps topics in memory only: the next caller replaces a dead catalog, and jobs and relays register again.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from tidewheel.host.log_lines import LogSettings
from tidewheel.host.ray_cluster import actor_class, cluster, connect_to_running, namespace
from tidewheel.host.retry import Retry
from tidewheel.progress import TidewheelError
from tidewheel.pubsub.catalog.catalog import CATALOG_TOPIC, ENDED, Catalog, Listing, TopicEvent, TopicInfo
from tidewheel.pubsub.catalog.catalog_topic import CatalogTopic
from tidewheel.pubsub.catalog.publisher_life import publisher_death, publishers_live
from tidewheel.pubsub.errors import CatalogSilent, DeliveryError, NoCluster
from tidewheel.transport.change_signal import ChangeSignal

_LOG = logging.getLogger(__name__)
_MOST_CALLS = 10_000

KNOWN_S: Final = 10.0
"""The catalog forgets a relay as many seconds after the relay's last announcement."""

CATALOG_NAME = "tidewheel-catalog"


class _CatalogDied(DeliveryError):  # noqa: N818  it names what happened
    """The catalog has died during a call; the next call starts a new one."""


_AGAIN = Retry(first_pause_s=0.2, factor=1.0, on=_CatalogDied)
"""The attempts at a call if the catalog dies."""

CATALOG_TIMEOUT_S = 30.0
"""The longest wait for an answer of the catalog, in seconds; starting a new catalog takes a few seconds."""


@dataclass(frozen=True, slots=True)
class RelayInfo:
    """One relay, as it announces itself.

    Args:
        max_children: the number of children at which it counts as full; None for no limit. Full relays get further
            subscribers only if all relays are full.
    """

    name: str
    topic: str
    registration: str
    node: str
    actor: Any
    children: int
    depth: int = 0
    max_children: int | None = None

    @property
    def is_full(self) -> bool:
        return self.max_children is not None and self.children >= self.max_children


class CatalogRelays:
    """The relays announced recently, and the choice among them for a new subscriber; no I/O, no clock.

    Relays repeat their announcements; a silent relay is forgotten.

    >>> relays = CatalogRelays()
    >>> relays.announce(RelayInfo("one", "ranks", "first", "here", "actor 1", 0), now_s=0.0)
    >>> relays.announce(RelayInfo("two", "ranks", "first", "there", "actor 2", 0), now_s=5.0)
    >>> relays.parent("ranks", "first", "here", now_s=6.0), relays.parent("ranks", "first", "elsewhere", now_s=6.0)
    ('actor 1', 'actor 2')
    >>> relays.parent("ranks", "first", "here", now_s=12.0)
    'actor 2'
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[RelayInfo, float]] = {}

    def announce(self, relay: RelayInfo, now_s: float) -> None:
        self._known[relay.name] = (relay, now_s)

    def parent(self, topic: str, registration: str, node: str, now_s: float, avoid: Any = None) -> Any:
        """Return the address of the relay for a new subscriber; None if there is no relay.

        Choose among the relays on the subscriber's node, or else among all. Prefer relays that are not full, then
        relays furthest from the publishers, then relays with the fewest children. The relay at ``avoid`` is dead;
        forget it until its next announcement.
        """
        self._known = {
            name: (relay, heard_s)
            for name, (relay, heard_s) in self._known.items()
            if now_s - heard_s <= KNOWN_S and (avoid is None or relay.actor != avoid)
        }
        found = [
            relay for relay, _ in self._known.values() if (relay.topic, relay.registration) == (topic, registration)
        ]
        if not found:
            return None
        near = [relay for relay in found if relay.node == node]
        chosen = min(near or found, key=lambda relay: (relay.is_full, -relay.depth, relay.children))
        heard_s = self._known[chosen.name][1]
        self._known[chosen.name] = (replace(chosen, children=chosen.children + 1), heard_s)
        return chosen.actor

    def forget(self, name: str) -> None:
        self._known.pop(name, None)

    def forget_topic(self, registration: str) -> None:
        self._known = {name: known for name, known in self._known.items() if known[0].registration != registration}


class CatalogActor:
    """The catalog of one namespace.

    ``death`` waits until a publisher of a topic is dead, and returns the reason.
    """

    def __init__(
        self,
        live: Callable[[TopicInfo], Awaitable[bool]] = publishers_live,
        death: Callable[[TopicInfo], Awaitable[str]] = publisher_death,
        topic: Callable[[str], CatalogTopic] = CatalogTopic,
        logs: LogSettings | None = None,
    ) -> None:
        if logs is not None:
            logs.use()
        self._catalog = Catalog()
        self._incarnation = uuid.uuid4().hex
        self._live = live
        self._death = death
        self._topic = topic(self._incarnation)
        self._relays = CatalogRelays()
        self._changed = ChangeSignal()
        self._watches: dict[str, asyncio.Task[None]] = {}

    async def register(self, info: TopicInfo) -> None:
        """Add a topic. Idempotent.

        Raises:
            DeliveryError: a running job publishes a topic of that name.
        """
        holder = self._catalog.lookup(info.name)
        is_dead = holder is not None and holder.registration != info.registration and not await self._live(holder)
        self._take(self._catalog.register(info, holder if is_dead else None, "a publisher of it is dead"))
        if info.registration not in self._watches:
            watch = asyncio.get_running_loop().create_task(self._watch(info))
            self._watches[info.registration] = watch

    async def retract(self, topic: str, registration: str, reason: str = ENDED) -> bool:
        return self._take(self._catalog.retract(topic, registration, reason))

    async def hold(self, topic: str, registration: str, timeout_s: float) -> bool:
        """Wait at most ``timeout_s`` seconds for a topic to leave a registration.

        Return whether it still belongs to it.
        """
        return not await self._changed.wait_until(lambda: not self._catalog.has(topic, registration), timeout_s)

    async def lookup(self, topic: str, timeout_s: float) -> TopicInfo | None:
        """Return a topic as soon as a running job publishes it; return None after ``timeout_s`` seconds."""
        if topic == CATALOG_TOPIC:
            return await self._own_topic()
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        while await self._changed.wait_until(
            lambda: self._catalog.lookup(topic) is not None,
            deadline_s - asyncio.get_running_loop().time(),
        ):
            info = await self._lookup_live(topic)
            if info is not None:
                return info
        return None

    async def topics(self) -> list[TopicInfo]:
        """Return the topics whose publishers are alive, by name."""
        known = self._catalog.topics()
        found = await asyncio.gather(*(self._lookup_live(info.name) for info in known))
        return [info for info in found if info is not None]

    async def listing(self) -> Listing:
        return self._catalog.listing(self._incarnation)

    async def announce(self, relay: RelayInfo) -> bool:
        """Record that a relay is alive; return False if its topic now has another registration."""
        info = self._catalog.lookup(relay.topic)
        if info is not None and info.registration != relay.registration:
            return False
        self._relays.announce(relay, time.monotonic())
        return True

    async def parent(self, topic: str, registration: str, node: str, avoid: Any = None) -> Any:
        return self._relays.parent(topic, registration, node, time.monotonic(), avoid)

    async def forget_relay(self, name: str) -> None:
        self._relays.forget(name)

    async def _own_topic(self) -> TopicInfo:
        info = self._topic.info
        if info is not None and not await self._live(info) and self._topic.info is info:
            info = None
        return info or self._topic.open(self._catalog.version)

    async def _lookup_live(self, topic: str) -> TopicInfo | None:
        info = self._catalog.lookup(topic)
        if info is None or await self._live(info):
            return info
        self._bury(info, "a publisher of it is dead")
        return None

    async def _watch(self, info: TopicInfo) -> None:
        self._bury(info, await self._death(info))

    def _bury(self, info: TopicInfo, reason: str) -> None:
        if self._take(self._catalog.retract(info.name, info.registration, reason)):
            _LOG.warning("topic %r of job %r is retracted: %s", info.name, info.job, reason)

    def _take(self, events: list[TopicEvent]) -> bool:
        self._topic.tell(events)
        for event in events:
            if event.event != "retracted":
                continue
            self._relays.forget_topic(event.registration)
            watch = self._watches.pop(event.registration, None)
            if watch is not None and watch is not asyncio.current_task():
                watch.cancel()
        if events:
            self._changed.notify()
        return bool(events)


def catalog_actor() -> Any:
    """Return the handle of this namespace's catalog; start it if necessary. It outlives this process."""
    options: dict[str, Any] = {"lifetime": "detached", "get_if_exists": True, "num_cpus": 0, "max_restarts": 0}
    actor = actor_class(CatalogActor).options(
        name=CATALOG_NAME, namespace=namespace(), max_concurrency=_MOST_CALLS, **options
    )
    return actor.remote(logs=LogSettings.here(actor=CATALOG_NAME))


def find_catalog() -> Any | None:
    import ray

    try:
        return ray.get_actor(CATALOG_NAME, namespace=namespace())
    except ValueError:
        return None


def ask_catalog(method: str, *arguments: Any, within_s: float = CATALOG_TIMEOUT_S) -> Any:
    """Call a method of the catalog and return its answer; connect to the cluster first if necessary.

    If the catalog dies during the call, this calls a new catalog, so the method may run twice.

    Raises:
        NoCluster: there is no cluster.
        CatalogSilent: the catalog has not answered within ``within_s`` seconds.
        DeliveryError: the catalog has died in every attempt, or the method has failed.
        TidewheelError: the method has raised it.
    """
    import ray

    deadline_s = time.monotonic() + within_s

    def ask() -> Any:
        connect_to_running(NoCluster)
        try:
            call = getattr(catalog_actor(), method).remote(*arguments)
            return ray.get(call, timeout=max(0.0, deadline_s - time.monotonic()))
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, TidewheelError):
                raise error.cause from None
            raise DeliveryError(f"the catalog of topics cannot answer: {error}") from error
        except (ray.exceptions.RayError, ValueError) as error:  # a ValueError if the actor died during the search
            failure: type[DeliveryError] = DeliveryError
            if isinstance(error, ray.exceptions.RayActorError | ValueError):
                failure = _CatalogDied
            elif isinstance(error, ray.exceptions.GetTimeoutError):
                failure = CatalogSilent
            text = f"the catalog of topics on the Ray cluster at {cluster()} has not answered within {within_s:g} s"
            raise failure(f"{text}: {error}") from error

    try:
        return replace(_AGAIN, within_s=within_s).call(ask)
    except _CatalogDied as error:
        raise DeliveryError(str(error)) from error.__cause__
