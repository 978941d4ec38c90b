"""The list of topics that a process can subscribe to."""

from dataclasses import dataclass

from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.catalog.topic_event import Delivery
from tidewheel.pubsub.errors import NoCluster


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that can be subscribed to now.

    Attributes:
        name: the name that subscribers use.
        job: the name of the job that publishes it.
        partitions: the number of its partitions.
        times: the domain of its times, such as ``IntegerDomain()``.
        schema: the schema of its records, such as ``int`` or ``(word: string, n: int64)``; ``any`` if none is declared.
        delivery: the guarantee to subscribers, ``"best_effort"`` or ``"exactly_once"``.
    """

    name: str
    job: str
    partitions: int
    times: str
    schema: str
    delivery: Delivery = "best_effort"


def topics() -> list[Topic]:
    """Return the topics of local jobs of this process, then those of all jobs on the Ray cluster, by name.

    A process that is not part of a Ray cluster connects to the one that runs. Without a cluster, only the local topics
    are returned.

    Raises:
        DeliveryError: there is no Ray cluster and no local topic, or the catalog does not answer.

    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("live")
    >>> _ = flow.input("words").publish("words by hand")
    >>> with tw.run(flow, workers=2, engine="local") as job:
    ...     [(topic.name, topic.partitions) for topic in tw.topics() if topic.job == job.name]
    ...     job.stop()
    [('words by hand', 2)]
    """
    from tidewheel.pubsub.catalog.catalog_actor import ask_catalog

    found = LOCAL_CATALOG.topics()
    try:
        found += ask_catalog("topics")
    except NoCluster:
        if not found:
            raise
    return [
        Topic(info.name, info.job, len(info.partitions), repr(info.domain), info.schema_text, info.delivery)
        for info in found
    ]
