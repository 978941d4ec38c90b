"""The progress protocol: orders of times, frontiers, and the exchange of progress. Standard library only."""

from tidewheel.progress.accumulated import Accumulated
from tidewheel.progress.antichain import Antichain
from tidewheel.progress.broadcast import Broadcast
from tidewheel.progress.change_batch import ChangeBatch
from tidewheel.progress.compiled_graph import CompiledGraph
from tidewheel.progress.errors import GraphError, ProtocolError, TidewheelError
from tidewheel.progress.graph import GraphShape, OperatorShape, Step
from tidewheel.progress.held_batch import Change, HeldBatch, NetBatch, ProgressBatch
from tidewheel.progress.integer_domain import IntegerDomain
from tidewheel.progress.location import Location, Source, Target
from tidewheel.progress.mutable_antichain import MutableAntichain
from tidewheel.progress.nesting import ROOT, Nesting
from tidewheel.progress.path_summary import PathSummary
from tidewheel.progress.product_domain import ProductDomain
from tidewheel.progress.spread import Committed, Knowledge, Spread, SpreadName
from tidewheel.progress.time_domain import Summary, Time, TimeDomain
from tidewheel.progress.tracker import Pointstamp, Tracker
from tidewheel.progress.unit_domain import UnitDomain

__all__ = [
    "ROOT",
    "Accumulated",
    "Antichain",
    "Broadcast",
    "Change",
    "ChangeBatch",
    "Committed",
    "CompiledGraph",
    "GraphError",
    "GraphShape",
    "HeldBatch",
    "IntegerDomain",
    "Knowledge",
    "Location",
    "MutableAntichain",
    "Nesting",
    "NetBatch",
    "OperatorShape",
    "PathSummary",
    "Pointstamp",
    "ProductDomain",
    "ProgressBatch",
    "ProtocolError",
    "Source",
    "Spread",
    "SpreadName",
    "Step",
    "Summary",
    "Target",
    "TidewheelError",
    "Time",
    "TimeDomain",
    "Tracker",
    "UnitDomain",
]
