"""Publishers on simulated disks, relays and subscribers, on a network where everything may go wrong."""

from random import Random
from typing import TYPE_CHECKING, cast

from tests.simulation.delivery.world import PubendNode, World
from tests.simulation.jobs.publisher import CACHE_BYTES, Publisher
from tests.simulation.network import Network
from tidewheel.pubsub.messages.encoded_message import size_of
from tidewheel.pubsub.publications.publication import Publication

if TYPE_CHECKING:
    from tests.simulation.jobs.subscriber import Subscriber


class JobWorld(World):
    """All of it but the job.

    Args:
        random: where all chance comes from.
        network: what carries messages.
        topic: what is published.
        pubends: how many partitions the topic has.
    """

    size_of = staticmethod(size_of)
    cache_bytes = CACHE_BYTES

    def __init__(self, random: Random, network: Network, topic: Publication, pubends: int) -> None:
        self.topic = topic
        super().__init__(random, network, pubends)

    def pubend(self, number: int, clock_s: float) -> PubendNode:
        """Return a publisher whose clock shows another time than a right one."""
        return Publisher(self, number, self.pubends_count, clock_s)

    @property
    def publishers(self) -> list[Publisher]:
        """The publishers, by partition."""
        return cast(list[Publisher], self.pubends)

    @property
    def subscribers(self) -> "list[Subscriber]":
        """The subscribers."""
        return cast("list[Subscriber]", list(self.subends.values()))
