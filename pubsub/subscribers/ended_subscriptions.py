"""Ending a durable subscription that nobody needs any more."""

from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.subscribers.subscribing import find_topic


def end_subscription(topic: str, name: str, *, timeout: float = 10.0) -> None:
    """End a durable subscription for good: the topic's log keeps nothing for it any more.

    Whoever reads it gets an error. Who subscribes by that name later begins a new one. A subscription that nobody ends,
    and nobody reads, holds the log for the publisher's ``retention=``.

    Args:
        topic: its name; a job has to publish it now.
        name: of the subscription, as it was given to `subscribe`.
        timeout: how long to wait until the topic exists, in seconds.

    Raises:
        UnknownTopic: nobody published it in time.
        DeliveryError: the topic has no such subscription, or one of its publishers does not answer: then the
            subscription may have been ended at others, and this is to be called again.
    """
    from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls
    from tidewheel.pubsub.subscribers.subscription_options import SubscriptionOptions

    options = SubscriptionOptions(name)
    info = LOCAL_CATALOG.lookup(topic) or find_topic(topic, timeout)
    names = PubendCalls(info, name, "", options).end() if info.delivery == "exactly_once" else set()
    if name not in names:
        there = ", ".join(map(repr, sorted(names))) or "none"
        raise DeliveryError(
            f"topic {topic!r} of job {info.job!r} has no durable subscription {name!r}; those there are: {there}",
            topic=topic,
        )
