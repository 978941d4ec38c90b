"""Dataflow descriptions, tokens, workers and jobs."""

from tidewheel.runtime.description.pacts import Key
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.description.secret import Secret
from tidewheel.runtime.engines.captured import Captured, CapturedBatches
from tidewheel.runtime.engines.job import Job
from tidewheel.runtime.engines.looking_up import LookedUp
from tidewheel.runtime.engines.probe_handle import ProbeHandle
from tidewheel.runtime.engines.run import run
from tidewheel.runtime.errors import ConfigError, JobError, Rewound, SnapshotError, TokenError, WouldBlock
from tidewheel.runtime.explaining.explanation import Explanation
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.messages.statistics import JobStatistics
from tidewheel.runtime.snapshots.snapshots import Snapshots
from tidewheel.runtime.tokens.notificator import Notificator
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.tokens.token_set import TokenSet
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.ports import InputPort, OutputPort

__all__ = [
    "Build",
    "Captured",
    "CapturedBatches",
    "ConfigError",
    "Explanation",
    "InputHandle",
    "InputPort",
    "InputPosition",
    "Job",
    "JobError",
    "JobStatistics",
    "Key",
    "LentToken",
    "LookedUp",
    "Notificator",
    "OperatorContext",
    "OutputPort",
    "ProbeHandle",
    "Rewound",
    "RuntimeConfig",
    "Schedule",
    "Secret",
    "SnapshotError",
    "Snapshots",
    "TimestampToken",
    "TokenError",
    "TokenSet",
    "WouldBlock",
    "run",
]
