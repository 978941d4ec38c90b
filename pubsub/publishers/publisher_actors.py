"""The start of the publisher actors of a topic, each on the node of its worker."""

import re
from functools import partial
from pathlib import Path
from typing import Any

from tidewheel.progress import IntegerDomain, TimeDomain
from tidewheel.pubsub.log.record_format import LogIdentity
from tidewheel.pubsub.publishers.durable_partition import DurablePartition
from tidewheel.pubsub.publishers.live_partition import LivePartition
from tidewheel.pubsub.publishers.publication import Publication
from tidewheel.pubsub.publishers.publisher_actor import MakePartition, PublisherActor
from tidewheel.transport.attachment import AttachmentHost
from tidewheel.transport.ray_cluster import actor_class


def start_publishers(publication: Publication, host: AttachmentHost) -> list[Any]:
    """Start an actor for each partition; return their handles.

    Ray starts an actor with a log again when it has died, and only where its log is.
    """
    options = {"num_cpus": 0, "max_restarts": 0 if publication.log is None else -1, "max_task_retries": 0}
    actor = actor_class(PublisherActor)
    nodes = host.nodes[: publication.partitions(host)]
    return [
        actor.options(**options, scheduling_strategy=_only_on(node)).remote(
            publication.topic, number, _maker(publication, number, len(nodes), node, host.keeps_snapshots)
        )
        for number, node in enumerate(nodes)
    ]


def _maker(topic: Publication, number: int, partitions: int, node: str, is_remembered: bool) -> MakePartition:
    """Return what makes a partition."""
    log = topic.log
    if log is None:
        name = f"{topic.topic!r}[{number}]"
        return partial(
            LivePartition,
            name,
            topic.domain,
            topic.capacity_bytes,
            topic.awaited,
            is_remembered=is_remembered,
            node=node,
        )
    identity = LogIdentity(topic.topic, number, partitions, _named(topic.domain))
    directory = Path(log.of_partition(topic.topic, number))
    kept_s = log.retention_s
    return partial(DurablePartition, directory, identity, topic.domain, node, topic.awaited, retention_s=kept_s)


def _only_on(node: str) -> Any:
    """Return how to say that: the node of a worker, without which there is no job either.

    With soft=True Ray takes another node at times, and the publisher is lost with that.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def _named(domain: TimeDomain) -> str:
    """Return what tells a domain from others in every process, so without addresses; it is in logs, so it stays."""
    named = repr(domain).replace(repr(IntegerDomain()), f"IntegerDomain(maximum={IntegerDomain().maximum})")
    return re.sub(r" at 0x[0-9a-fA-F]+", "", named)
