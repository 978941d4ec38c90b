"""Which topics there are."""

from dataclasses import dataclass

from tidewheel.pubsub.catalog.catalog import ANYTHING, TopicInfo
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.catalog.topic_event import Delivery
from tidewheel.pubsub.errors import NoCluster


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that can be subscribed to now.

    Attributes:
        name: what subscribers ask for.
        job: the name of the job that publishes it.
        partitions: how many publishers it has.
        times: what its times are, such as ``IntegerDomain()``.
        schema: what its records are, such as ``int`` or ``(word: string, n: int64)``; ``any`` if nobody has said.
        delivery: what those who subscribe can count on, ``"best_effort"`` or ``"exactly_once"``.
    """

    name: str
    job: str
    partitions: int
    times: str
    schema: str
    delivery: Delivery = "best_effort"


def topics() -> list[Topic]:
    """Return the topics of local jobs of this process, then those of all jobs on the Ray cluster, by name.

    A process that is not part of a Ray cluster yet connects to the one that runs; where none does there are only the
    local ones, unless there is none of them either.

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
    local = [info for name in LOCAL_CATALOG.names() if (info := LOCAL_CATALOG.lookup(name)) is not None]
    try:
        return [*map(_shown, local), *map(_shown, _on_the_cluster())]
    except NoCluster:
        if not local:
            raise
        return list(map(_shown, local))


def _on_the_cluster() -> list[TopicInfo]:
    from tidewheel.pubsub.catalog.catalog_actor import ask_catalog

    found: list[TopicInfo] = ask_catalog("topics")
    return found


def _shown(info: TopicInfo) -> Topic:
    schema = (info.schema or ANYTHING).text
    return Topic(info.name, info.job, len(info.partitions), repr(info.domain), schema, info.delivery)
