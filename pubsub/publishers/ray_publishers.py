"""The start and the end of the actors that publish a topic.

Publishers of this process that are retired wait for the last readers of a topic that is over, with its log in their
hands. A job that goes on with that log has precedence: those readers are told to go on with it.
"""

import logging
import re
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.log.record_format import LogIdentity
from tidewheel.pubsub.publishers.durable_partition import DurablePartition
from tidewheel.pubsub.publishers.live_partition import LivePartition
from tidewheel.pubsub.publishers.publication import Publication
from tidewheel.pubsub.publishers.publisher_actor import MakePartition, PublisherActor
from tidewheel.transport.attachment import AttachmentHost
from tidewheel.transport.ray_cluster import process_id

_LOG = logging.getLogger(__name__)

TAKEN_OVER: Final = (
    "the topic has ended, and another job goes on with its log: subscribe by the same name to go on there"
)

_LOCK = threading.Lock()
_RETIRED: dict[tuple[str, str], list[Any]] = {}


def start_publishers(publication: Publication, host: AttachmentHost) -> list[Any]:
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


def _maker(topic: Publication, number: int, partitions: int, node: str) -> MakePartition:
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


def retire(log: str, publishers: Sequence[Any]) -> None:
    """Let publishers end once all their readers have everything, or another job wants their log.

    Args:
        log: what they have open, for all partitions of the topic; empty if that is nothing.
        publishers: the handles of their actors.
    """
    process = process_id()
    with _LOCK:
        for key in [key for key in _RETIRED if key[0] != process]:
            del _RETIRED[key]  # of a cluster that this process has left
        if log:
            _RETIRED[process, log] = list(publishers)
    for publisher in publishers:
        # Subscriptions of this very process: what they have not read waits for them, and then the actor goes.
        publisher.retire.options(num_returns=0).remote(process)


def take_over(log: str) -> None:
    """Have those end that still hold a log, if there are any; does not wait."""
    with _LOCK:
        publishers = _RETIRED.pop((process_id(), log), [])
    for publisher in publishers:
        publisher.fail.options(num_returns=0).remote(TAKEN_OVER)
