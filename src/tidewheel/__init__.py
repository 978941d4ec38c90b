"""A dataflow runtime for Python on Ray: operators in graphs that may have cycles, coordinated by timestamp tokens."""

from tidewheel.operators import Dataflow, Feedback, IterableSource, Loop, Stream
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
from tidewheel.pubsub import DeliveryError, Epoch, PublisherLost, Subscription, UnknownTopic, subscribe
from tidewheel.runtime import (
    Captured,
    InputHandle,
    InputPort,
    Job,
    JobError,
    LentToken,
    OperatorContext,
    OutputPort,
    ProbeHandle,
    TimestampToken,
    TokenError,
    run,
)

__version__ = "0.1.0"

__all__ = [
    "Antichain",
    "Captured",
    "Dataflow",
    "DeliveryError",
    "Epoch",
    "Feedback",
    "GraphError",
    "InputHandle",
    "InputPort",
    "IntegerDomain",
    "IterableSource",
    "Job",
    "JobError",
    "LentToken",
    "Loop",
    "OperatorContext",
    "OutputPort",
    "PathSummary",
    "ProbeHandle",
    "ProductDomain",
    "ProtocolError",
    "PublisherLost",
    "Stream",
    "Subscription",
    "TidewheelError",
    "TimeDomain",
    "TimestampToken",
    "TokenError",
    "UnitDomain",
    "UnknownTopic",
    "run",
    "subscribe",
]
