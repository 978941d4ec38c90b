"""Streams and the operators on them."""

from tidewheel.operators.dataflow import Dataflow
from tidewheel.operators.joins.interval_join_operators import IntervalJoined
from tidewheel.operators.records.record_operators import Failed, Tried
from tidewheel.operators.records.routing_operators import Branches, NamedBranches
from tidewheel.operators.scopes.loop import Feedback, Loop
from tidewheel.operators.sinks.write_files import WrittenEpoch
from tidewheel.operators.sources.line_source import LineSource
from tidewheel.operators.sources.parquet_source import ParquetSource
from tidewheel.operators.sources.queue_source import QueueSource
from tidewheel.operators.sources.record_source import RecordSource, TickSource
from tidewheel.operators.sources.replay_source import ReplaySource
from tidewheel.operators.sources.source import IterableSource
from tidewheel.operators.stream import Stream
from tidewheel.operators.tables.column_operators import Grouping
from tidewheel.operators.windows.open_windows import LateRecord, WindowResult
from tidewheel.operators.windows.window_operators import Windowed
from tidewheel.operators.windows.windows import SessionWindows, SlidingWindows, TumblingWindows

__all__ = [
    "Branches",
    "Dataflow",
    "Failed",
    "Feedback",
    "Grouping",
    "IntervalJoined",
    "IterableSource",
    "LateRecord",
    "LineSource",
    "Loop",
    "NamedBranches",
    "ParquetSource",
    "QueueSource",
    "RecordSource",
    "ReplaySource",
    "SessionWindows",
    "SlidingWindows",
    "Stream",
    "TickSource",
    "Tried",
    "TumblingWindows",
    "WindowResult",
    "Windowed",
    "WrittenEpoch",
]
