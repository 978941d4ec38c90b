"""The named, detached Ray actor around the `Catalog` of one Ray namespace.

It answers only with topics whose publishers live: before it does, it pings them, and retracts what belongs to the dead.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from tidewheel.pubsub.catalog import Catalog, TopicInfo
from tidewheel.pubsub.change_signal import ChangeSignal
from tidewheel.pubsub.cluster import namespace

_LOG = logging.getLogger(__name__)
_PING_TIMEOUT_S = 5.0

CATALOG_NAME = "tidewheel-catalog"


async def publishers_live(info: TopicInfo) -> bool:
    """Ping all publishers of a topic; tell whether none of them is dead. One that is only slow to answer is not."""
    answers = await asyncio.gather(*(_is_dead(publisher) for publisher in info.partitions))
    return not any(answers)


async def _is_dead(publisher: Any) -> bool:
    from ray.exceptions import ActorUnavailableError, RayActorError

    try:
        async with asyncio.timeout(_PING_TIMEOUT_S):
            await publisher.ping.remote()
    except (TimeoutError, ActorUnavailableError):
        return False
    except RayActorError:
        return True
    return False


class CatalogActor:
    """The catalog of one namespace.

    Args:
        live: tells whether the publishers of a topic live.
    """

    def __init__(self, live: Callable[[TopicInfo], Awaitable[bool]] = publishers_live) -> None:
        self._catalog = Catalog()
        self._live = live
        self._changed = ChangeSignal()

    async def register(self, info: TopicInfo) -> None:
        """Add a topic.

        Raises:
            DeliveryError: a job that lives publishes a topic of that name.
        """
        holder = self._catalog.lookup(info.name)
        dead = holder if holder is not None and not await self._live(holder) else None
        self._catalog.register(info, dead)
        self._changed.notify()

    async def retract(self, topic: str, registration: str) -> bool:
        """Remove a topic if it is still that registration's; tell whether it was."""
        return self._catalog.retract(topic, registration)

    async def lookup(self, topic: str, timeout_s: float) -> TopicInfo | None:
        """Return a topic as soon as somebody who lives publishes it, None if the time is over before."""
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
        """Return the topics whose publishers live, by name."""
        names = self._catalog.names()
        found = await asyncio.gather(*(self._lookup_live(name) for name in names))
        return [info for info in found if info is not None]

    async def _lookup_live(self, topic: str) -> TopicInfo | None:
        info = self._catalog.lookup(topic)
        if info is None or await self._live(info):
            return info
        if self._catalog.retract(topic, info.registration):
            _LOG.warning("topic %r of job %r is retracted: a publisher of it is dead", topic, info.job)
        return None


def catalog_actor() -> Any:
    """Return the handle of this namespace's catalog, which is started if there is none.

    It outlives its creator, so that jobs can come and go.
    """
    import ray

    options: dict[str, Any] = {"lifetime": "detached", "get_if_exists": True, "num_cpus": 0, "max_restarts": 0}
    return ray.remote(CatalogActor).options(name=CATALOG_NAME, namespace=namespace(), **options).remote()
