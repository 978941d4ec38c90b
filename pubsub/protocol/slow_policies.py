"""The policies for subscribers that fall behind; each policy is a kind of queue."""

from typing import Final

from tidewheel.pubsub.messages.delivery_options import EVERYTHING, DeliveryOptions, Slow
from tidewheel.pubsub.protocol.blocking_queue import BlockingQueue
from tidewheel.pubsub.protocol.dropping_queue import DroppingQueue
from tidewheel.pubsub.protocol.outgoing_queue import OutgoingQueue

QUEUES: Final[dict[Slow, type[OutgoingQueue]]] = {
    "disconnect": OutgoingQueue,
    "drop_epochs": DroppingQueue,
    "block": BlockingQueue,
}
"""The queue of each policy."""


def queue_for(capacity_bytes: int, options: DeliveryOptions = EVERYTHING, partition: int = 0) -> OutgoingQueue:
    return QUEUES[options.slow](capacity_bytes, options, partition)
