"""A dataflow runtime for Python on Ray: operators in graphs that may have cycles, coordinated by timestamp tokens."""

from typing import TYPE_CHECKING, Any

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
from tidewheel.pubsub import DeliveryError, PublisherLost, Subscription, UnknownTopic, subscribe
from tidewheel.runtime import Captured, InputHandle, Job, JobError, ProbeHandle, TimestampToken, TokenError, run

__version__ = "0.1.0"
