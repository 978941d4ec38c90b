"""Dataflow descriptions, tokens, workers and jobs."""

from tidewheel.runtime.attachment import Attachment, AttachmentHost, RunningAttachment
from tidewheel.runtime.captured import Captured, CapturedBatches
from tidewheel.runtime.dataflow_description import DataflowDescription
from tidewheel.runtime.errors import ConfigError, JobError, TokenError, WouldBlock
from tidewheel.runtime.explanation import Explanation, Holder
from tidewheel.runtime.input_port import InputPort
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.runtime.job import Job
from tidewheel.runtime.notificator import Notificator
from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.output_port import OutputPort
from tidewheel.runtime.partitioned_source import OperatorSource, PartitionedSource, Pause
from tidewheel.runtime.probe_handle import ProbeHandle
from tidewheel.runtime.run import run
from tidewheel.runtime.runtime_config import RuntimeConfig
from tidewheel.runtime.statistics import EdgeStatistics, JobStatistics, OperatorStatistics, WorkerStatistics
from tidewheel.runtime.token_set import TokenSet
from tidewheel.runtime.tokens import LentToken, TimestampToken

__all__ = [
    "Attachment",
    "AttachmentHost",
    "Captured",
    "CapturedBatches",
    "ConfigError",
    "DataflowDescription",
    "EdgeStatistics",
    "Explanation",
    "Holder",
    "InputHandle",
    "InputPort",
    "Job",
    "JobError",
    "JobStatistics",
    "LentToken",
    "Notificator",
    "OperatorContext",
    "OperatorSource",
    "OperatorStatistics",
    "OutputPort",
    "PartitionedSource",
    "Pause",
    "ProbeHandle",
    "RunningAttachment",
    "RuntimeConfig",
    "TimestampToken",
    "TokenError",
    "TokenSet",
    "WorkerStatistics",
    "WouldBlock",
    "run",
]
