"""The catalog of the cluster as relays use it."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.catalog.catalog_actor import find_catalog
from tidewheel.pubsub.catalog.catalog_relays import RelayInfo
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.transport.ray_cluster import node_id

_ANSWERS_WITHIN_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class TopicLife:
    """One life of a topic, which a relay serves.

    Args:
        registration: the unique id of this life.
        pubends: the number of pubends of the topic.
        parents: the handles of the actors to connect to: one for each pubend, or one relay for all of them.
    """

    registration: str
    pubends: int
    parents: tuple[Any, ...]


class RelayRegistry:
    """The catalog as the relays of one topic use it. Relays do not start a catalog: jobs that publish do.

    Args:
        topic: the topic of the relays.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._catalog: Any = None

    @property
    def node(self) -> str:
        """The node of the cluster that this process is on."""
        return node_id()

    async def life(self, timeout_s: float) -> TopicLife | None:
        """Wait for the life of the topic and return it; None after the timeout, or if the topic is best effort.

        Raises:
            DeliveryError: there is no catalog, or it does not answer.
        """
        info: TopicInfo | None = await self._ask("lookup", self._topic, timeout_s, within_s=timeout_s)
        if info is None or info.delivery != "exactly_once":
            return None
        return TopicLife(info.registration, len(info.partitions), info.partitions)

    async def announce(self, name: str, registration: str, children: int) -> bool:
        """Announce a relay for a life of the topic; return False if another life has begun.

        Raises:
            DeliveryError: there is no catalog, or it does not answer.
        """
        import ray

        actor = ray.get_runtime_context().current_actor
        relay = RelayInfo(name, self._topic, registration, self.node, actor, children)
        return bool(await self._ask("announce", relay))

    async def _ask(self, method: str, *arguments: Any, within_s: float = 0.0) -> Any:
        """Call a method of the catalog; after a failure, the next call looks for a new catalog."""
        try:
            self._catalog = self._catalog or find_catalog()
            async with asyncio.timeout(within_s + _ANSWERS_WITHIN_S):
                return await getattr(self._catalog, method).remote(*arguments)
        except Exception as error:  # Ray has many, and there may be no catalog at all
            self._catalog = None
            raise DeliveryError(f"the catalog of topics does not answer: {error}") from error


def forget_relay(name: str) -> None:
    """Tell the catalog, if there is one, that no more subscribers may connect to a relay."""
    import ray

    with suppress(Exception):  # the catalog forgets the relay by itself, a little later
        catalog = find_catalog()
        if catalog is not None:
            ray.get(catalog.forget_relay.remote(name), timeout=_ANSWERS_WITHIN_S)
