"""The actors that publish the partitions of one topic, each on the node of its worker, and how workers reach them."""

import re
from typing import Any

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.log.record_format import LogIdentity
from tidewheel.pubsub.publishers.pubend_actor import PubendActor
from tidewheel.pubsub.publishers.publication import Publication
from tidewheel.pubsub.publishers.publisher_actor import PublisherActor
from tidewheel.pubsub.publishers.ray_connection import RayConnection
from tidewheel.transport.attachment import AttachmentHost


def start_publishers(publication: Publication, host: AttachmentHost) -> list[Any]:
    """Start an actor for each partition; return their handles."""
    start = _best_effort if publication.log is None else _exactly_once
    nodes = host.nodes[: publication.partitions(host)]
    return [start(publication, partition, len(nodes), node) for partition, node in enumerate(nodes)]


def connection(publication: Publication, partition: int, publisher: Any) -> RayConnection:
    """Return the connection for the worker of a partition."""
    has_log = publication.log is not None
    return RayConnection(publication.topic, partition, publication.domain, publisher, has_log=has_log)


def _best_effort(publication: Publication, partition: int, partitions: int, node: str) -> Any:
    import ray

    actor: Any = ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)(PublisherActor)
    return actor.options(scheduling_strategy=_only_on(node)).remote(
        publication.topic, partition, publication.domain, publication.capacity_bytes, node
    )


def _exactly_once(publication: Publication, partition: int, partitions: int, node: str) -> Any:
    """Start one that Ray starts again when it has died, and only where its log is."""
    import ray

    assert publication.log is not None, "this is for topics with a log"
    actor: Any = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0)(PubendActor)
    identity = LogIdentity(publication.topic, partition, partitions, _named(publication.domain))
    directory = publication.log.of_partition(publication.topic, partition)
    return actor.options(scheduling_strategy=_only_on(node)).remote(
        directory, identity, publication.domain, node, retention_s=publication.log.retention_s
    )


def _only_on(node: str) -> Any:
    """Return how to say that: the node of a worker, without which there is no job either.

    With soft=True Ray takes another node at times, and the publisher is lost with that.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def _named(domain: TimeDomain) -> str:
    """Return what tells a domain from others in every process, so without addresses."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(domain))
