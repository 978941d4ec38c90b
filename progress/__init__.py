"""The progress protocol: orders of times, frontiers, and the exchange of progress. Standard library only."""

from tidewheel.progress.antichain import Antichain, MutableAntichain
from tidewheel.progress.change_batch import Change, ChangeBatch, HeldBatch, NetBatch, ProgressBatch
from tidewheel.progress.compiled_graph import CompiledGraph
from tidewheel.progress.errors import GraphError, ProtocolError, TidewheelError
from tidewheel.progress.graph import GraphShape, Location, OperatorShape, Step, Target
from tidewheel.progress.path_summary import ROOT, Nesting, PathSummary
from tidewheel.progress.spread import Accumulated, Broadcast, Committed, Knowledge, Spread, SpreadName
from tidewheel.progress.time_domain import IntegerDomain, ProductDomain, Summary, Time, TimeDomain, UnitDomain
from tidewheel.progress.tracker import Pointstamp, Tracker

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
