"""Connecting one reader to a topic with exactly-once delivery."""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from tidewheel.pubsub.catalog.catalog import TopicInfo
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.frames import Join
from tidewheel.pubsub.exactly_once.messages import Begun
from tidewheel.pubsub.exactly_once.subend_stream import SubendStream
from tidewheel.pubsub.messages.delivery_options import MessageFilter, Where
from tidewheel.pubsub.relays.relay_search import RelaySearch
from tidewheel.pubsub.subscribers.kept_parent import KeptParent
from tidewheel.pubsub.subscribers.parents import Parent, find_parent
from tidewheel.pubsub.subscribers.pubend_calls import PubendCalls
from tidewheel.pubsub.subscribers.subend_reader import SubendReader
from tidewheel.pubsub.subscribers.subscription_options import SubscriptionOptions
from tidewheel.pubsub.subscribers.topic_reader import TopicReader
from tidewheel.transport.ray_cluster import node_id, process_id

_LIFE_DIGITS: Final = 12


def read_exactly_once(info: TopicInfo, where: Where | None, options: SubscriptionOptions) -> TopicReader:
    """Return a reader of a topic, connected: to a relay if there is one, otherwise to the pubends.

    Raises:
        DeliveryError: a publisher does not take it on, or has no longer what comes next.
    """
    life = uuid.uuid4().hex[:_LIFE_DIGITS]
    name = options.name or f"unnamed-{life}"
    reader = f"{process_id()}/{name}/{life}"
    calls = PubendCalls(info, name, reader, options)
    begun = calls.subscribe()
    check_begun(info, name, begun, calls)
    begun = calls.agree(begun)
    stream = SubendStream(reader, begun, options.order)
    greeting = Join(reader, None if where is None else MessageFilter(where))
    node = node_id()

    def find(partition: int, is_again: bool) -> Parent:
        if is_again:
            calls.subscribe_again(partition, stream.acknowledged(partition).prefix_end)
        return find_parent(info.partitions[partition], reader, node)

    def parents_of(ring: Callable[[], None], is_needed: Callable[[int], bool]) -> Mapping[KeptParent, Collection[int]]:
        numbers = range(len(info.partitions))
        relays = RelaySearch(info, reader, node, is_needed)
        if relays.begin():
            return {KeptParent(f"topic {info.name!r}", relays.find, greeting, ring): numbers}
        return {KeptParent(calls.where(number), partial(find, number), greeting, ring): [number] for number in numbers}

    reading = SubendReader(reader, calls, begun, stream, parents_of, tells_at_once=options.ack == "manual")
    try:
        reading.attach()
    except BaseException:
        reading.leave()
        reading.close()
        raise
    return reading


def check_begun(info: TopicInfo, name: str, begun: Sequence[Begun], calls: PubendCalls) -> None:
    """Raise DeliveryError if something is gone that this subscription has not had; the next reader goes on after it."""
    gone = {partition: one.lost_end for partition, one in enumerate(begun) if one.lost_end}
    if not gone:
        return
    calls.leave([one.acknowledged for one in begun])
    partition, lost_end = next(iter(gone.items()))
    raise DeliveryError(
        f"{calls.where(partition)}: subscription {name!r} has not had all that was published before tick {lost_end}, "
        "and it is no longer kept. A durable subscription holds messages as long as it is read again within the "
        "publisher's retention=. Subscribe again to go on with what there is, with start='earliest' if it is a new one",
        topic=info.name,
        partition=partition,
    )
