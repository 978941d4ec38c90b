"""The actors that publish the partitions of one topic, each on the node of its worker."""

import re
from functools import partial
from pathlib import Path
from typing import Any

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.log.record_format import LogIdentity
from tidewheel.pubsub.publishers.durable_partition import DurablePartition
from tidewheel.pubsub.publishers.live_partition import LivePartition
from tidewheel.pubsub.publishers.publisher_actor import MakePartition, PublisherActor
from tidewheel.pubsub.publishers.topic_description import TopicDescription
from tidewheel.transport.attachment import AttachmentHost


def start_publishers(publication: TopicDescription, host: AttachmentHost) -> list[Any]:
    """Start an actor for each partition; return their handles.

    Ray starts an actor with a log again when it has died, and only where its log is.
    """
    import ray

    restarts = 0 if publication.log is None else -1
    actor: Any = ray.remote(num_cpus=0, max_restarts=restarts, max_task_retries=0)(PublisherActor)
    nodes = host.nodes[: publication.partitions(host)]
    return [
        actor.options(scheduling_strategy=_only_on(node)).remote(
            publication.topic, number, _maker(publication, number, len(nodes), node)
        )
        for number, node in enumerate(nodes)
    ]


def _maker(topic: TopicDescription, number: int, partitions: int, node: str) -> MakePartition:
    """Return what makes a partition."""
    log = topic.log
    if log is None:
        return partial(LivePartition, f"{topic.topic!r}[{number}]", topic.domain, topic.capacity_bytes, node=node)
    identity = LogIdentity(topic.topic, number, partitions, _named(topic.domain))
    directory = Path(log.of_partition(topic.topic, number))
    return partial(DurablePartition, directory, identity, topic.domain, node, retention_s=log.retention_s)


def _only_on(node: str) -> Any:
    """Return how to say that: the node of a worker, without which there is no job either.

    With soft=True Ray takes another node at times, and the publisher is lost with that.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def _named(domain: TimeDomain) -> str:
    """Return what tells a domain from others in every process, so without addresses."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(domain))
