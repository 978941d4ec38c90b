"""A dataflow runtime for Python on Ray: operators in graphs that may have cycles, coordinated by timestamp tokens.

This module has the names that a program calls, inherits from or catches. `tidewheel.types` has the types of results,
handles and events, for annotations. `tidewheel.errors` has the errors that few programs catch. `tidewheel.progress` has
times, their orders and antichains. Each public name is in one of these modules.
"""

from typing import TYPE_CHECKING, Final

from tidewheel.public_names import public_names

if TYPE_CHECKING:
    from tidewheel import errors as errors
    from tidewheel import progress as progress
    from tidewheel import types as types
    from tidewheel.host.retry import Retry as Retry
    from tidewheel.operators.collections.collection import Collection as Collection
    from tidewheel.operators.dataflow import Dataflow as Dataflow
    from tidewheel.operators.sinks.sink import Sink as Sink
    from tidewheel.operators.sources.contract import Fetched as Fetched
    from tidewheel.operators.sources.contract import Pause as Pause
    from tidewheel.operators.sources.contract import Refused as Refused
    from tidewheel.operators.sources.contract import Source as Source
    from tidewheel.operators.sources.file_source import FileSource as FileSource
    from tidewheel.operators.sources.parquet_source import ParquetSource as ParquetSource
    from tidewheel.operators.sources.queue_source import QueueSource as QueueSource
    from tidewheel.operators.sources.record_source import IterableSource as IterableSource
    from tidewheel.operators.sources.record_source import RecordSource as RecordSource
    from tidewheel.operators.sources.record_source import TickSource as TickSource
    from tidewheel.operators.sources.replay_source import ReplaySource as ReplaySource
    from tidewheel.operators.stream import Stream as Stream
    from tidewheel.operators.windows.windows import SessionWindows as SessionWindows
    from tidewheel.operators.windows.windows import SlidingWindows as SlidingWindows
    from tidewheel.operators.windows.windows import TumblingWindows as TumblingWindows
    from tidewheel.progress.errors import GraphError as GraphError
    from tidewheel.progress.errors import TidewheelError as TidewheelError
    from tidewheel.pubsub.errors import DeliveryError as DeliveryError
    from tidewheel.pubsub.publishers.topic_log import Log as Log
    from tidewheel.pubsub.relays.relay_handle import relay as relay
    from tidewheel.pubsub.subscribers.subscribing import end_subscription as end_subscription
    from tidewheel.pubsub.subscribers.subscribing import subscribe as subscribe
    from tidewheel.pubsub.subscribers.subscription_options import Durable as Durable
    from tidewheel.pubsub.subscribers.topics import topics as topics
    from tidewheel.pubsub.subscribers.topics import watch_topics as watch_topics
    from tidewheel.runtime.description.runtime_config import RuntimeConfig as RuntimeConfig
    from tidewheel.runtime.description.secret import Secret as Secret
    from tidewheel.runtime.engines.job_by_name import job as job
    from tidewheel.runtime.engines.run import run as run
    from tidewheel.runtime.errors import JobError as JobError
    from tidewheel.runtime.errors import JobRolledBack as JobRolledBack
    from tidewheel.runtime.snapshots.snapshots import Snapshots as Snapshots
    from tidewheel.runtime.tokens.timestamp_token import TimestampToken as TimestampToken
    from tidewheel.runtime.tokens.token_set import TokenSet as TokenSet
    from tidewheel.runtime.worker.operator_context import OperatorContext as OperatorContext
    from tidewheel.runtime.worker.ports import InputPort as InputPort
    from tidewheel.runtime.worker.ports import OutputPort as OutputPort

__version__ = "0.1.0"

_WHERE: Final = {
    "tidewheel.host.retry": ("Retry",),
    "tidewheel.operators.collections.collection": ("Collection",),
    "tidewheel.operators.dataflow": ("Dataflow",),
    "tidewheel.operators.sinks.sink": ("Sink",),
    "tidewheel.operators.sources.contract": ("Fetched", "Pause", "Refused", "Source"),
    "tidewheel.operators.sources.file_source": ("FileSource",),
    "tidewheel.operators.sources.parquet_source": ("ParquetSource",),
    "tidewheel.operators.sources.queue_source": ("QueueSource",),
    "tidewheel.operators.sources.record_source": ("IterableSource", "RecordSource", "TickSource"),
    "tidewheel.operators.sources.replay_source": ("ReplaySource",),
    "tidewheel.operators.stream": ("Stream",),
    "tidewheel.operators.windows.windows": ("SessionWindows", "SlidingWindows", "TumblingWindows"),
    "tidewheel.progress.errors": ("GraphError", "TidewheelError"),
    "tidewheel.pubsub.errors": ("DeliveryError",),
    "tidewheel.pubsub.publishers.topic_log": ("Log",),
    "tidewheel.pubsub.relays.relay_handle": ("relay",),
    "tidewheel.pubsub.subscribers.subscribing": ("end_subscription", "subscribe"),
    "tidewheel.pubsub.subscribers.subscription_options": ("Durable",),
    "tidewheel.pubsub.subscribers.topics": ("topics", "watch_topics"),
    "tidewheel.runtime.description.runtime_config": ("RuntimeConfig",),
    "tidewheel.runtime.description.secret": ("Secret",),
    "tidewheel.runtime.engines.job_by_name": ("job",),
    "tidewheel.runtime.engines.run": ("run",),
    "tidewheel.runtime.errors": ("JobError", "JobRolledBack"),
    "tidewheel.runtime.snapshots.snapshots": ("Snapshots",),
    "tidewheel.runtime.tokens.timestamp_token": ("TimestampToken",),
    "tidewheel.runtime.tokens.token_set": ("TokenSet",),
    "tidewheel.runtime.worker.operator_context": ("OperatorContext",),
    "tidewheel.runtime.worker.ports": ("InputPort", "OutputPort"),
}
"""The names of each module, which must agree with the imports for type checkers above."""
_MODULES: Final = ("errors", "progress", "types")
"""The modules in this package that are loaded on first use, like its names."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = public_names(__name__, _WHERE, _MODULES)
