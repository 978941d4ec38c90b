"""The operators of a source: one finds partitions, one reads them, one receives news.

An inline source is one operator.
"""

from dataclasses import dataclass
from typing import Any

from tidewheel.operators.base.setting_aside import Caught
from tidewheel.operators.sources.contract import Source, check_source_object
from tidewheel.operators.sources.dealing import DealPact
from tidewheel.operators.sources.discoverer import DiscovererBuild
from tidewheel.operators.sources.inline_source import InlineBuild, InlineSource
from tidewheel.operators.sources.partition_epochs import EpochRule
from tidewheel.operators.sources.reader import ReaderBuild
from tidewheel.operators.sources.source_news import NewsBuild
from tidewheel.progress import GraphError, IntegerDomain
from tidewheel.runtime.description.dataflow_description import DataflowDescription, Outlet
from tidewheel.runtime.description.pacts import BroadcastPact


def refuses_nothing(name: str, source: object) -> GraphError:
    kind = type(source).__qualname__
    return GraphError(f"source {name!r}: this {kind} has no record that it could refuse: leave out dead_letters=")


@dataclass(frozen=True, slots=True)
class SourceOperators:
    """The operators of a source in a dataflow.

    Attributes:
        rule: when an epoch ends, if the source assigns no epochs.
        paced_by: the probe at which epochs must be complete before a partition begins further ones; None for no limit.
        epochs_ahead: how many epochs of a partition may be incomplete at that probe.
        caught: the errors for which the output has letters among its records.
    """

    name: str
    source: Source[Any]
    rule: EpochRule
    paced_by: str | None
    epochs_ahead: int
    caught: Caught = ()

    def check(self, description: DataflowDescription) -> None:
        """Raise GraphError if the source or an argument cannot be used in this dataflow."""
        name, source = self.name, self.source
        if not isinstance(source, Source):
            raise GraphError(
                f"source {name!r}: it is an object of a subclass of tw.Source, with partitions() and "
                f"open(partition, position), such as tw.RecordSource([1, 2]), not of {type(source).__qualname__}"
            )
        if not isinstance(source, InlineSource):
            check_source_object(name, source)
        if self.caught and (isinstance(source, InlineSource) or not source._may_refuse):
            raise refuses_nothing(name, source)
        self.rule.check(name)
        if source.says_epochs and self.rule != EpochRule():
            raise GraphError(f"source {name!r}: a {type(source).__qualname__} says its epochs itself")
        is_static = source.says_epochs and source.look_every_s is None
        domain = description.root.nesting.domain
        if not is_static and type(domain) is not IntegerDomain:
            raise GraphError(
                f"source {name!r}: its epochs are counted, and the times of this dataflow are {domain.describe()}. "
                "Count epochs by integers, or give a source with says_epochs = True and look_every_s = None"
            )

    def add(self, description: DataflowDescription) -> Outlet:
        """Add the operators; return the outlet of the records."""
        root, name = description.root, self.name
        if isinstance(self.source, InlineSource):
            inline = InlineBuild(self.source.in_domain(root.nesting.domain), self.paced_by, self.epochs_ahead)
            (records,) = description.add_operator(name, [], [root], inline, notify=False)
            return records
        news = f"{name} {description.size}"  # another source may have its name
        listing = DiscovererBuild(news, self.source, self.rule)
        (deals,) = description.add_operator(f"{name}: partitions", [], [root], listing, notify=False)
        reading = ReaderBuild(news, self.source, self.rule, self.paced_by, self.epochs_ahead, self.caught)
        records, told = description.add_operator(name, [deals], [root, root], reading, pacts=[DealPact()])
        hearing = NewsBuild(news)
        description.add_operator(f"{name}: news", [told], [], hearing, pacts=[BroadcastPact()], notify=False)
        description.side_by_side.append({"": records.source, ".news": told.source})
        return records
