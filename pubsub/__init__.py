"""Live topics: every output of a dataflow can be published, and anybody in the cluster can subscribe to it."""

from tidewheel.pubsub.catalog import Catalog, TopicInfo
from tidewheel.pubsub.connection import PublisherConnection
from tidewheel.pubsub.epoch import Epoch
from tidewheel.pubsub.epoch_assembler import EpochAssembler
from tidewheel.pubsub.errors import DeliveryError, PublisherLost, UnknownTopic
from tidewheel.pubsub.events import Batch, Ended, Event, FrontierChanged
from tidewheel.pubsub.publication import Publication, PublicationHost, RunningPublication
from tidewheel.pubsub.publisher import Publisher, PublisherStatistics
from tidewheel.pubsub.subscriber import Subscriber, SubscriberStatistics
from tidewheel.pubsub.subscription import Subscription, subscribe

__all__ = [
    "Batch",
    "Catalog",
    "DeliveryError",
    "Ended",
    "Epoch",
    "EpochAssembler",
    "Event",
    "FrontierChanged",
    "Publication",
    "PublicationHost",
    "Publisher",
    "PublisherConnection",
    "PublisherLost",
    "PublisherStatistics",
    "RunningPublication",
    "Subscriber",
    "SubscriberStatistics",
    "Subscription",
    "TopicInfo",
    "UnknownTopic",
    "subscribe",
]
