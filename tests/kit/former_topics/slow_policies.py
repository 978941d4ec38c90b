"""The policies for subscribers that fall behind: each is the queue of one subscriber."""

from typing import Final

from tests.kit.former_topics.blocking_queue import BlockingQueue
from tests.kit.former_topics.dropping_queue import DroppingQueue
from tests.kit.former_topics.outgoing_queue import OutgoingQueue
from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions, Slow

QUEUES: Final[dict[Slow, type[OutgoingQueue]]] = {
    "disconnect": OutgoingQueue,
    "drop_epochs": DroppingQueue,
    "block": BlockingQueue,
}
"""The queue of each policy."""


def queue_for(capacity_bytes: int, options: DeliveryOptions = EVERYTHING, partition: int = 0) -> OutgoingQueue:
    """Return an empty queue for a subscriber with these options."""
    return QUEUES[options.slow](capacity_bytes, options, partition)
