"""A dataflow runtime for Python on Ray: operators in graphs that may have cycles, coordinated by timestamp tokens."""

from tidewheel import operators, runtime
from tidewheel.operators import *  # noqa: F403 - all of it is for users
from tidewheel.operators.dataflow import Dataflow
from tidewheel.operators.joins.interval_join_operators import IntervalJoined
from tidewheel.operators.records.record_operators import Failed, Tried
from tidewheel.operators.records.routing_operators import Branches, NamedBranches
from tidewheel.operators.sinks.write_files import WrittenEpoch
from tidewheel.operators.sources.line_source import LineSource
from tidewheel.operators.sources.parquet_source import ParquetSource
from tidewheel.operators.sources.queue_source import QueueSource
from tidewheel.operators.sources.record_source import RecordSource, TickSource
from tidewheel.operators.sources.replay_source import ReplaySource
from tidewheel.operators.sources.source import IterableSource
from tidewheel.operators.stream import Feedback, Loop, Stream
from tidewheel.operators.tables.column_operators import Grouping
from tidewheel.operators.windows.window_operators import Windowed
from tidewheel.operators.windows.window_records import LateRecord, WindowResult
from tidewheel.operators.windows.windows import SessionWindows, SlidingWindows, TumblingWindows
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
