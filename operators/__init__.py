"""Streams and the operators on them."""

from tidewheel.operators.branch import Branches, NamedBranches
from tidewheel.operators.dataflow import Dataflow
from tidewheel.operators.epoch_folders import WrittenEpoch
from tidewheel.operators.grouping import Grouping
from tidewheel.operators.interval_joined import IntervalJoined
from tidewheel.operators.line_source import LineSource
from tidewheel.operators.loop import Feedback, Loop
from tidewheel.operators.parquet_source import ParquetSource
from tidewheel.operators.queue_source import QueueSource
from tidewheel.operators.record_source import RecordSource
from tidewheel.operators.replay_source import ReplaySource
from tidewheel.operators.source import IterableSource
from tidewheel.operators.stream import Stream
from tidewheel.operators.tick_source import TickSource
from tidewheel.operators.try_map import Failed, Tried
from tidewheel.operators.window_records import LateRecord, Windowed, WindowResult
from tidewheel.operators.windows import SessionWindows, SlidingWindows, TumblingWindows

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
