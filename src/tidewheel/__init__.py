"""A dataflow runtime for Python on Ray: operators in graphs that may have cycles, coordinated by timestamp tokens."""

from tidewheel import operators, runtime
from tidewheel.operators import *  # noqa: F403 - all of it is for users
from tidewheel.progress import (
    Antichain,
    GraphError,
    IntegerDomain,
    PathSummary,
    ProductDomain,
    ProtocolError,
    TidewheelError,
    TimeDomain,
    UnitDomain,
)
from tidewheel.pubsub import (
    Batch,
    DeliveryError,
    Dropped,
    End,
    Epoch,
    Frontier,
    PublisherLost,
    RelayHandle,
    SchemaMismatch,
    Subscription,
    SubstreamsEnded,
    Topic,
    TopicEvent,
    TopicWatch,
    UnknownTopic,
    end_subscription,
    relay,
    subscribe,
    topics,
    watch_topics,
)
from tidewheel.runtime import *  # noqa: F403 - all of it is for users

__version__ = "0.1.0"

__all__ = [
    "Antichain",
    "Batch",
    "DeliveryError",
    "Dropped",
    "End",
    "Epoch",
    "Frontier",
    "GraphError",
    "IntegerDomain",
    "PathSummary",
    "ProductDomain",
    "ProtocolError",
    "PublisherLost",
    "RelayHandle",
    "SchemaMismatch",
    "Subscription",
    "SubstreamsEnded",
    "TidewheelError",
    "TimeDomain",
    "Topic",
    "TopicEvent",
    "TopicWatch",
    "UnitDomain",
    "UnknownTopic",
    "end_subscription",
    "relay",
    "subscribe",
    "topics",
    "watch_topics",
]
__all__ += operators.__all__
__all__ += runtime.__all__
