"""Live topics: every output of a dataflow can be published, and anybody in the cluster can subscribe to it."""

from tidewheel.pubsub.catalog.catalog import CATALOG_TOPIC, Catalog, TopicEvent, TopicInfo
from tidewheel.pubsub.errors import DeliveryError, PublisherLost, SchemaMismatch, UnknownTopic
from tidewheel.pubsub.messages.events import (
    Batch,
    Dropped,
    End,
    Epoch,
    Event,
    Frontier,
    RolledBack,
    SubscriberStatistics,
    SubstreamsEnded,
)
from tidewheel.pubsub.messages.topic_schema import TopicSchema, topic_schema
from tidewheel.pubsub.protocol.epochs import EpochAssembler
from tidewheel.pubsub.protocol.publisher import Publisher
from tidewheel.pubsub.protocol.publisher_statistics import PublisherStatistics
from tidewheel.pubsub.protocol.subscriber import Subscriber
from tidewheel.pubsub.publications.publication import Publication, RunningPublication
from tidewheel.pubsub.publishers.connection import PublisherConnection
from tidewheel.pubsub.relays.relay_handle import RelayHandle, relay
from tidewheel.pubsub.subscribers.epochs_iterator import Epochs
from tidewheel.pubsub.subscribers.subscribing import end_subscription, subscribe
from tidewheel.pubsub.subscribers.subscription import Subscription
from tidewheel.pubsub.subscribers.telemetry_reader import TelemetryReader
from tidewheel.pubsub.subscribers.topics import Topic, TopicWatch, topics, watch_topics

__all__ = [
    "CATALOG_TOPIC",
    "Batch",
    "Catalog",
    "DeliveryError",
    "Dropped",
    "End",
    "Epoch",
    "EpochAssembler",
    "Epochs",
    "Event",
    "Frontier",
    "Publication",
    "Publisher",
    "PublisherConnection",
    "PublisherLost",
    "PublisherStatistics",
    "RelayHandle",
    "RolledBack",
    "RunningPublication",
    "SchemaMismatch",
    "Subscriber",
    "SubscriberStatistics",
    "Subscription",
    "SubstreamsEnded",
    "TelemetryReader",
    "Topic",
    "TopicEvent",
    "TopicInfo",
    "TopicSchema",
    "TopicWatch",
    "UnknownTopic",
    "end_subscription",
    "relay",
    "subscribe",
    "topic_schema",
    "topics",
    "watch_topics",
]
