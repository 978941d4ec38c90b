"""Connecting to a topic, from any process of the cluster."""

import logging
import math
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from numbers import Real
from reprlib import repr as short
from typing import Any

from tidewheel.host.ray_cluster import (
    are_several_here,
    cluster,
    connect_to_running,
    node_id,
    other_clusters,
    process_id,
)
from tidewheel.host.retry import Retry
from tidewheel.pubsub.catalog.catalog import CATALOG_TOPIC, RESERVED, TELEMETRY, TopicInfo
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.errors import (
    CatalogSilent,
    DeliveryError,
    NoCluster,
    PublisherLost,
    SchemaMismatch,
    UnknownTopic,
)
from tidewheel.pubsub.exactly_once.subend import Order
from tidewheel.pubsub.messages.delivery_options import BLOCK_LIMIT_S, DeliveryOptions, Slow, Where
from tidewheel.pubsub.messages.topic_schema import TopicSchema, topic_schema
from tidewheel.pubsub.subscribers.asking import ask_for_telemetry
from tidewheel.pubsub.subscribers.live_source import LiveSource
from tidewheel.pubsub.subscribers.local_source import LocalSource
from tidewheel.pubsub.subscribers.message_source import MessageSource
from tidewheel.pubsub.subscribers.subscription import Subscription
from tidewheel.pubsub.subscribers.subscription_options import Durable, Start, SubscriptionOptions, check_options

_LOG = logging.getLogger(__name__)
_LOOKUP_S = 2.0
_AGAIN_S = 0.5
_CATALOG = Retry(attempts=3, first_pause_s=0.2, on=PublisherLost)
"""The attempts at connecting to the catalog's own topic.

The topic's publisher can answer the catalog and die before the subscriber has connected. The catalog starts another
publisher at the next lookup.
"""
_STARTS_WITHIN_S = 5.0
"""The seconds for the catalog's answer, in addition to the time for which the topic is awaited."""


def subscribe(  # noqa: PLR0913 - the options of a subscriber, by name
    topic: str,
    *,
    blocking: bool = True,
    timeout_s: float | None = 10.0,
    atomic: bool = True,
    where: Callable[[Any], object] | Any = None,
    slow: Slow = "disconnect",
    block_limit_s: float = BLOCK_LIMIT_S,
    schema: object = None,
    start: Start = "live",
    order: Order = "publisher",
    durable: Durable | None = None,
) -> Subscription:
    """Subscribe to a topic of a local job of this process if there is one, otherwise of a Ray job.

    From the return of this function on, the subscriber misses no message. With ``publish(..., history=True)`` the first
    epoch is the state. A process outside a cluster connects to the cluster of RAY_ADDRESS, else to that of ``ray
    start`` on this machine, else to the only cluster there. See `topics` for Ray namespaces.

    Args:
        topic: the name of the topic.
        blocking: whether to wait until the cluster and the topic exist.
        timeout_s: how long to wait for them, in seconds; None waits forever.
        atomic: True to leave out epochs that were published in part before; False to receive such parts.
        where: the condition on records: a function of a record (a dict for a row of Arrow) or, for tables, an
            expression such as ``pc.field("n") > 1``. Publishers and relays evaluate it, so that no other records are
            sent. Epochs without such a record are left out. An error in the condition ends this subscription only.
        slow: the policy if more messages wait than the publishers keep. ``"disconnect"`` ends the subscription with an
            error. ``"drop_epochs"`` leaves out whole epochs, the oldest first, and reports each as `Dropped`; it
            delivers batches only once their epoch is complete. ``"block"`` holds back the publishing dataflow and its
            sources. With exactly-once delivery the log keeps everything, and no policy applies.
        block_limit_s: how long the subscriber may block without reading, in seconds, before it is disconnected.
        schema: the expected type or schema of records, as for `Stream.publish`. If the topic declares another schema,
            this raises immediately. If it declares none, each batch is checked when it is read.
        start: where a new subscription begins: ``"live"`` with the next messages, ``"earliest"`` with all messages in
            the log, or at a tick, in microseconds since 1970. This argument and those below are for topics with a log.
        order: with ``"total"``, all subscribers receive the batches of all partitions in the order of their ticks. By
            default only the order within a partition is the same for all subscribers.
        durable: a `Durable`, with a name under which a later subscriber continues with the unacknowledged records.
            Without it, the log keeps nothing for this subscription once it is closed.

    Raises:
        UnknownTopic: no job has published the topic in time.
        NoCluster: this process could not join a cluster in time.
        SchemaMismatch: the topic has another schema than ``schema``.
        DeliveryError: the publishers do not answer, or an argument is wrong or not for this topic.

    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("live")
    >>> _ = flow.input("numbers", int).publish("numbers, live")
    >>> with tw.run(flow, engine="local") as job, tw.subscribe("numbers, live", where=lambda n: n > 1) as topic:
    ...     with job.input("numbers") as numbers:
    ...         numbers.send([1, 2, 3])
    ...     [epoch.records for epoch in topic.epochs()]
    [[2, 3]]
    """
    options = DeliveryOptions(None if where is None else Where(where), slow, block_limit_s)
    asked = _asked(topic, durable, start, order)
    expected = None if schema is None else topic_schema(schema)

    deadline_s = _deadline_s(topic, timeout_s if blocking else 0.0)

    def connected() -> Subscription:
        here = _here(topic)
        info = here or find_topic(topic, timeout_s if blocking else 0.0, deadline_s)
        check_options(info, options, asked)
        unchecked = _to_check(info, expected)
        source = _source(info, options, asked, is_here=here is not None)
        return Subscription(
            info, source, atomic=atomic, may_drop=slow == "drop_epochs", expected=unchecked, ack=asked.ack
        )

    return _CATALOG.call(connected) if topic == CATALOG_TOPIC else connected()


def _asked(topic: str, durable: object, start: Start, order: Order) -> SubscriptionOptions:
    if durable is None:
        return SubscriptionOptions(start=start, order=order)
    if not isinstance(durable, Durable):
        raise DeliveryError(f"topic {topic!r}: durable is tw.Durable(name), not {short(durable)}", topic=topic)
    return SubscriptionOptions(durable.name, durable.ack, start, order)


def _here(topic: str) -> TopicInfo | None:
    if topic != CATALOG_TOPIC:
        return LOCAL_CATALOG.lookup(topic)
    if LOCAL_CATALOG.names():
        try:
            connect_to_running(NoCluster)
        except NoCluster:
            return LOCAL_CATALOG.own_topic
    return None


def _to_check(info: TopicInfo, expected: TopicSchema | None) -> TopicSchema | None:
    if expected is None or info.schema is None:
        return expected
    if not expected.takes(info.schema):
        raise SchemaMismatch(
            f"topic {info.name!r} of job {info.job!r} has {info.schema.text}, and its subscriber expects "
            f"{expected.declared.text}",
            topic=info.name,
        )
    return None


def _source(info: TopicInfo, options: DeliveryOptions, asked: SubscriptionOptions, *, is_here: bool) -> MessageSource:
    if info.delivery == "exactly_once":
        from tidewheel.pubsub.subscribers.subend_source import read_exactly_once

        return read_exactly_once(info, options.where, asked)
    subscriber = f"subscriber-{uuid.uuid4().hex}"
    if is_here:
        return LocalSource(info, subscriber, options)
    source = LiveSource(info, f"{process_id()}/{subscriber}", options, node_id())
    if info.name.startswith(TELEMETRY):
        ask_for_telemetry(info.name)  # so that the next record is a whole document
    return source


def end_subscription(topic: str, name: str, *, timeout_s: float = 10.0) -> None:
    """End a durable subscription for good: the topic's log keeps nothing more for it.

    The subscription's reader gets an error, and a later subscriber with this name begins anew. If a subscription is
    neither ended nor read, the log keeps its messages for ``Log(retention_s=)`` of the publisher.

    Args:
        topic: the name of the topic; a job must be publishing it.
        name: the name given to `Durable`.
        timeout_s: how long to wait for the topic to exist, in seconds.

    Raises:
        UnknownTopic: no job has published the topic in time.
        DeliveryError: the topic has no such subscription, or a publisher does not answer. Then call this again, since
            only some publishers may have ended it.
    """
    from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls

    info = LOCAL_CATALOG.lookup(topic) or find_topic(topic, timeout_s)
    calls = PubendCalls(info, name, "", SubscriptionOptions(name))
    names = calls.end() if info.delivery == "exactly_once" else set()
    if name not in names:
        there = ", ".join(map(repr, sorted(names))) or "none"
        raise DeliveryError(
            f"topic {topic!r} of job {info.job!r} has no durable subscription {name!r}; those there are: {there}",
            topic=topic,
        )


def find_topic(topic: str, timeout_s: float | None, deadline_s: float | None = None) -> TopicInfo:
    """Return a topic of the cluster, which this process joins if needed.

    Wait at most ``timeout_s`` seconds for the cluster and the topic, or forever for None. If the wait has begun before,
    it ends at ``deadline_s``.

    Raises:
        UnknownTopic: no job has published the topic in time.
        NoCluster: this process could not join a cluster in time, or the cluster refuses its token.
        DeliveryError: the catalog has not answered in time, or the timeout is not a number.
    """
    from ray.exceptions import AuthenticationError

    from tidewheel.pubsub.catalog.catalog_actor import ask_catalog

    deadline_s = _deadline_s(topic, timeout_s) if deadline_s is None else deadline_s
    warned_of: list[str] = []
    is_silent = False
    while True:
        remaining_s = max(0.0, deadline_s - time.monotonic())
        try:
            connect_to_running(NoCluster, max(remaining_s, _LOOKUP_S))
            if topic.startswith(TELEMETRY):
                ask_for_telemetry(topic)
            wait_s = min(remaining_s, _LOOKUP_S)
            info: TopicInfo | None = ask_catalog("lookup", topic, wait_s, within_s=wait_s + _STARTS_WITHIN_S)
        except (NoCluster, CatalogSilent) as error:  # a catalog can start for longer than a lookup waits
            is_final = isinstance(error.__cause__, AuthenticationError) or are_several_here()
            if is_final or deadline_s - time.monotonic() <= _AGAIN_S:
                here = [] if topic.startswith(RESERVED) else LOCAL_CATALOG.names()
                if here:  # a typo is likelier than a cluster that is missing
                    raise _unknown(
                        topic, timeout_s, here, f"in this process: {_listed(here)}", f", and {error}"
                    ) from None
                raise
            if isinstance(error, CatalogSilent) and not is_silent:
                is_silent = True
                _LOG.warning("topic %r is waited for: %s", topic, error)
            time.sleep(_AGAIN_S)
            continue
        if info is not None:
            return info
        if remaining_s <= _LOOKUP_S:
            there = ask_catalog("topics", within_s=_STARTS_WITHIN_S)
            known = [*LOCAL_CATALOG.names(), *(found.name for found in there)]
            where = f"here and on the Ray cluster at {cluster()}"
            raise _unknown(topic, timeout_s, known, f"{where}: {_listed(known)}", _others())
        others = other_clusters()
        if others != warned_of and (warned_of := others):
            _LOG.warning(
                "topic %r is not on the Ray cluster at %s, which this process uses%s", topic, cluster(), _others()
            )


def _deadline_s(topic: str, timeout_s: float | None) -> float:
    """Return the monotonic time at which the wait for a topic ends; infinite for None."""
    if not isinstance(timeout_s, Real | None):
        raise DeliveryError(
            f"topic {topic!r}: timeout_s is a number of seconds, or None to wait for ever, not {timeout_s!r}"
        )
    return math.inf if timeout_s is None else time.monotonic() + timeout_s


def _unknown(topic: str, timeout_s: float | None, known: Sequence[str], listed: str, more: str) -> UnknownTopic:
    waited_s = timeout_s or 0.0
    meant = "".join(f"; did you mean {name!r}?" for name in get_close_matches(topic, known, n=1))
    text = f"no job published topic {topic!r} within {waited_s:g} s; topics that exist {listed}{meant}{more}"
    return UnknownTopic(text, topic=topic, waited_s=waited_s, topics=tuple(known))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _others() -> str:
    others = other_clusters()
    if not others:
        return ""
    return f"; other Ray clusters run on this machine: {', '.join(others)}. Name the publisher's with RAY_ADDRESS"
