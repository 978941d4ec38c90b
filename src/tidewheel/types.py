"""The types of results, handles, events and streams of one operator, for annotations."""

from typing import TYPE_CHECKING, Final

from tidewheel.public_names import public_names

if TYPE_CHECKING:
    from tidewheel.operators.base.failed_record import FailedRecord as FailedRecord
    from tidewheel.operators.dead_letters import DeadLetters as DeadLetters
    from tidewheel.operators.joins.interval_join_operators import IntervalJoined as IntervalJoined
    from tidewheel.operators.records.routing_operators import Branches as Branches
    from tidewheel.operators.records.routing_operators import NamedBranches as NamedBranches
    from tidewheel.operators.sinks.write_files import WrittenEpoch as WrittenEpoch
    from tidewheel.operators.stream import Feedback as Feedback
    from tidewheel.operators.stream import Loop as Loop
    from tidewheel.operators.tables.column_operators import Grouping as Grouping
    from tidewheel.operators.windows.open_windows import LateRecord as LateRecord
    from tidewheel.operators.windows.open_windows import WindowResult as WindowResult
    from tidewheel.operators.windows.window_operators import Windowed as Windowed
    from tidewheel.pubsub.catalog.catalog import TopicEvent as TopicEvent
    from tidewheel.pubsub.messages.events import Batch as Batch
    from tidewheel.pubsub.messages.events import Dropped as Dropped
    from tidewheel.pubsub.messages.events import End as End
    from tidewheel.pubsub.messages.events import Epoch as Epoch
    from tidewheel.pubsub.messages.events import Frontier as Frontier
    from tidewheel.pubsub.messages.events import RolledBack as RolledBack
    from tidewheel.pubsub.messages.events import SubstreamsEnded as SubstreamsEnded
    from tidewheel.pubsub.relays.relay_handle import RelayHandle as RelayHandle
    from tidewheel.pubsub.subscribers.subscription import Subscription as Subscription
    from tidewheel.pubsub.subscribers.topics import Topic as Topic
    from tidewheel.pubsub.subscribers.topics import TopicWatch as TopicWatch
    from tidewheel.runtime.engines.captured import Captured as Captured
    from tidewheel.runtime.engines.captured import CapturedBatches as CapturedBatches
    from tidewheel.runtime.engines.job import Job as Job
    from tidewheel.runtime.engines.job_by_name import InputByName as InputByName
    from tidewheel.runtime.engines.job_by_name import JobByName as JobByName
    from tidewheel.runtime.engines.job_by_name import Sent as Sent
    from tidewheel.runtime.engines.looking_up import LookedUp as LookedUp
    from tidewheel.runtime.engines.probe_handle import ProbeHandle as ProbeHandle
    from tidewheel.runtime.explaining.explanation import Explanation as Explanation
    from tidewheel.runtime.inputs.input_handle import InputHandle as InputHandle
    from tidewheel.runtime.messages.input_position import InputPosition as InputPosition
    from tidewheel.runtime.messages.statistics import JobStatistics as JobStatistics
    from tidewheel.runtime.tokens.notificator import Notificator as Notificator
    from tidewheel.runtime.tokens.timestamp_token import LentToken as LentToken

_WHERE: Final = {
    "tidewheel.operators.base.failed_record": ("FailedRecord",),
    "tidewheel.operators.dead_letters": ("DeadLetters",),
    "tidewheel.operators.joins.interval_join_operators": ("IntervalJoined",),
    "tidewheel.operators.records.routing_operators": ("Branches", "NamedBranches"),
    "tidewheel.operators.sinks.write_files": ("WrittenEpoch",),
    "tidewheel.operators.stream": ("Feedback", "Loop"),
    "tidewheel.operators.tables.column_operators": ("Grouping",),
    "tidewheel.operators.windows.open_windows": ("LateRecord", "WindowResult"),
    "tidewheel.operators.windows.window_operators": ("Windowed",),
    "tidewheel.pubsub.catalog.catalog": ("TopicEvent",),
    "tidewheel.pubsub.messages.events": (
        "Batch",
        "Dropped",
        "End",
        "Epoch",
        "Frontier",
        "RolledBack",
        "SubstreamsEnded",
    ),
    "tidewheel.pubsub.relays.relay_handle": ("RelayHandle",),
    "tidewheel.pubsub.subscribers.subscription": ("Subscription",),
    "tidewheel.pubsub.subscribers.topics": ("Topic", "TopicWatch"),
    "tidewheel.runtime.engines.captured": ("Captured", "CapturedBatches"),
    "tidewheel.runtime.engines.job": ("Job",),
    "tidewheel.runtime.engines.job_by_name": ("InputByName", "JobByName", "Sent"),
    "tidewheel.runtime.engines.looking_up": ("LookedUp",),
    "tidewheel.runtime.engines.probe_handle": ("ProbeHandle",),
    "tidewheel.runtime.explaining.explanation": ("Explanation",),
    "tidewheel.runtime.inputs.input_handle": ("InputHandle",),
    "tidewheel.runtime.messages.input_position": ("InputPosition",),
    "tidewheel.runtime.messages.statistics": ("JobStatistics",),
    "tidewheel.runtime.tokens.notificator": ("Notificator",),
    "tidewheel.runtime.tokens.timestamp_token": ("LentToken",),
}
"""The names of each module, which must agree with the imports for type checkers above."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = public_names(__name__, _WHERE)
