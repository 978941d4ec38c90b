"""Connecting to a topic, from any process of the cluster."""

import math
import time
import uuid
from collections.abc import Callable
from typing import Any

from tidewheel.pubsub.catalog import TopicInfo
from tidewheel.pubsub.delivery_options import BLOCK_LIMIT_S, DeliveryOptions, Slow
from tidewheel.pubsub.errors import DeliveryError, UnknownTopic
from tidewheel.pubsub.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.subscription import Subscription
from tidewheel.pubsub.topic_reader import LocalTopicReader, TopicReader
from tidewheel.pubsub.where import Where

_LOOKUP_S = 2.0
_CATALOG_TIMEOUT_S = 30.0


def subscribe(
    topic: str,
    *,
    blocking: bool = True,
    timeout: float | None = 10.0,
    atomic: bool = True,
    where: Callable[[Any], object] | Any = None,
    slow: Slow = "disconnect",
    block_limit: float = BLOCK_LIMIT_S,
) -> Subscription:
    """Connect to a topic: of a local job of this process if there is one, otherwise of a job on Ray.

    From the return on, nothing is missed. A process that is not part of a Ray cluster yet connects to the one that
    runs.

    Args:
        topic: its name.
        blocking: whether to wait until the topic exists.
        timeout: how long to wait for that, in seconds; None waits for ever.
        atomic: whether to hold back epochs of which a part was published before; without, they come in part.
        where: which records are wanted: a function of a record, a dict for a row of Arrow, or for tables an expression
            such as ``pc.field("n") > 1``. It is evaluated by the publishers, so that nothing else is sent. One that
            raises ends the subscription with an error; nobody else notices.
        slow: what happens if more waits than the publishers keep: ``"disconnect"`` ends the subscription with an error,
            ``"drop_epochs"`` leaves out whole epochs, the oldest first, each told as `Dropped`, and batches come once
            their epoch is complete; ``"block"`` holds back the dataflow that publishes, and so its sources.
        block_limit: for how long it may do so at a time, in seconds, before it is cut off.

    Raises:
        UnknownTopic: nobody published it in time.
        DeliveryError: there is no Ray cluster, the topic's publishers do not answer, or an argument is wrong.

    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("live")
    >>> _ = flow.input("numbers", int).publish("numbers, live")
    >>> with tw.run(flow, engine="local") as job, tw.subscribe("numbers, live", where=lambda n: n > 1) as topic:
    ...     with job.input("numbers") as numbers:
    ...         numbers.send([1, 2, 3])
    ...     [epoch.records for epoch in topic.epochs()]
    [[2, 3]]
    """
    options = DeliveryOptions(None if where is None else Where(where), slow, block_limit)
    subscriber = f"subscriber-{uuid.uuid4().hex}"
    info = LOCAL_CATALOG.lookup(topic)
    reader: TopicReader
    if info is not None:
        reader = LocalTopicReader(topic, info.partitions, subscriber, options)
        reader.attach()
    else:
        info = _find(topic, timeout if blocking else 0.0)
        reader = _read_on_ray(info, subscriber, options)
    return Subscription(info, reader, atomic=atomic, may_drop=slow == "drop_epochs")


def _read_on_ray(info: TopicInfo, subscriber: str, options: DeliveryOptions) -> TopicReader:
    from tidewheel.pubsub.cluster import node_id, process_id
    from tidewheel.pubsub.ray_topic_reader import RayTopicReader
    from tidewheel.pubsub.socket_topic_reader import SocketTopicReader

    reader = RayTopicReader(info.name, info.partitions, f"{process_id()}/{subscriber}", options)
    try:
        reader.attach()
        return SocketTopicReader.over(reader, node_id())
    except BaseException:
        reader.close()
        raise


def _find(topic: str, timeout: float | None) -> TopicInfo:
    import ray

    from tidewheel.pubsub.catalog_actor import catalog_actor
    from tidewheel.pubsub.cluster import connect

    connect()
    catalog = catalog_actor()
    deadline_s = None if timeout is None else time.monotonic() + timeout
    try:
        while True:
            remaining_s = math.inf if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            lookup = catalog.lookup.remote(topic, min(remaining_s, _LOOKUP_S))
            info: TopicInfo | None = ray.get(lookup, timeout=_CATALOG_TIMEOUT_S)
            if info is not None:
                return info
            if remaining_s <= _LOOKUP_S:
                known = [found.name for found in ray.get(catalog.topics.remote(), timeout=_CATALOG_TIMEOUT_S)]
                raise _unknown(topic, timeout or 0.0, (*LOCAL_CATALOG.names(), *known))
    except ray.exceptions.RayError as error:
        raise DeliveryError(f"topic {topic!r}: the catalog does not answer: {error}", topic=topic) from error


def _unknown(topic: str, waited_s: float, known: tuple[str, ...]) -> UnknownTopic:
    names = ", ".join(map(repr, known)) or "none"
    text = f"no job published topic {topic!r} within {waited_s:g} s; topics that exist: {names}"
    return UnknownTopic(text, topic=topic, waited_s=waited_s, topics=known)
