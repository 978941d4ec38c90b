"""Which topics there are."""

from dataclasses import dataclass

from tidewheel.pubsub.catalog import TopicInfo
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.local_catalog import LOCAL_CATALOG

_CATALOG_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that can be subscribed to now.

    Attributes:
        name: what subscribers ask for.
        job: the name of the job that publishes it.
        partitions: how many publishers it has.
        times: what its times are, such as ``IntegerDomain()``.
    """

    name: str
    job: str
    partitions: int
    times: str


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
    except DeliveryError:
        if not local:
            raise
        return list(map(_shown, local))


def _on_the_cluster() -> list[TopicInfo]:
    import ray

    from tidewheel.pubsub.catalog_actor import catalog_actor
    from tidewheel.pubsub.cluster import connect

    connect()
    try:
        found: list[TopicInfo] = ray.get(catalog_actor().topics.remote(), timeout=_CATALOG_TIMEOUT_S)
    except ray.exceptions.RayError as error:
        raise DeliveryError(f"the catalog of topics does not answer: {error}") from error
    return found


def _shown(info: TopicInfo) -> Topic:
    return Topic(info.name, info.job, len(info.partitions), repr(info.domain))
