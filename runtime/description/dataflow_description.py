"""The description of a dataflow while a program builds it: operators, edges and scopes. Nothing runs yet."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tidewheel.display.checked_name import MOST_OF_OPERATORS, check_name
from tidewheel.host.attachment import Attachment, Telemetry
from tidewheel.progress import CompiledGraph, GraphError, IntegerDomain, PathSummary, TimeDomain
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.declared import declared_substreams
from tidewheel.runtime.description.described_operator import DescribedOperator, check_substreams, mixes_substreams
from tidewheel.runtime.description.fusion import fuse
from tidewheel.runtime.description.origin import origin_of
from tidewheel.runtime.description.outline import Outline, marks_by_operator
from tidewheel.runtime.description.pacts import Pact
from tidewheel.runtime.description.plan import Build, BySubstream, DeclarationPlan, KeyedTransform, Plan, Transform
from tidewheel.runtime.description.scope import Scope

_KINDS = ("input", "capture", "probe", "topic", "sink", "write_files", "capture_to", "declaration", "lookup")
"""The kinds of named things. A name is unique within its kind."""

_PLACES = ("sink", "write_files", "capture_to")
"""The kinds whose names are the places where an operator stores records."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """An output port of an operator, with its scope."""

    description: "DataflowDescription"
    source: Source
    scope: Scope
    substreams: frozenset[str] = frozenset()
    """The names of the declarations that may have divided the records of this output into substreams."""


class DataflowDescription:
    """The operators and edges of a dataflow. Each method checks its arguments; `plan` checks the whole.

    Args:
        telemetry: the topic on which jobs of the dataflow describe themselves; None for none.

    Attributes:
        effects: the numbers of the operators that have an effect even if no operator reads them; the value is False if
            the library has added the operator.
        ignored: outputs that the user has declared to need no reader.
    """

    def __init__(self, name: str, domain: TimeDomain | None = None, telemetry: Telemetry | None = None) -> None:
        check_name("a dataflow", name, GraphError)
        self.name = name
        self.root = Scope(name, None, domain if domain is not None else IntegerDomain())
        self.telemetry = telemetry
        self.attachments: dict[str, Attachment] = {}
        self.effects: dict[int, bool] = {}
        self.side_by_side: list[Mapping[str, Source]] = []
        self.ignored: set[Source] = set()
        self._operators: list[DescribedOperator] = []
        self._names: dict[str, int] = {}
        self._named: dict[str, dict[str, Any]] = {kind: {} for kind in _KINDS}

    def add_operator(
        self,
        name: str,
        inputs: Sequence[Outlet],
        output_scopes: Sequence[Scope],
        build: Build,
        *,
        pacts: Sequence[Pact | None] | None = None,
        summaries: Mapping[tuple[int, int], tuple[PathSummary, ...]] | None = None,
        notify: bool = True,
        by_substream: BySubstream = False,
    ) -> tuple[Outlet, ...]:
        """Add an operator with connected inputs; return its outputs.

        Pass ``by_substream`` if the operator keeps substreams apart: records that it sends in a substream depend on
        that substream alone. An `EndsWanted` also says which ends it asks for; ``"left"`` says that its outputs belong
        to no substream.

        Raises:
            GraphError: an input belongs to another dataflow, or has substreams that the operator would mix; or the
                ports differ in scope and there are no ``summaries``.
        """
        for outlet in inputs:
            self._check_ours(name, outlet)
            if outlet.substreams and output_scopes and not by_substream:
                raise mixes_substreams(name, min(outlet.substreams))
        divided = frozenset[str]().union(*(outlet.substreams for outlet in inputs))
        input_scopes = tuple(outlet.scope for outlet in inputs)
        if summaries is None:
            self._check_one_scope(name, (*input_scopes, *output_scopes))
        sources: list[Source | None] = [outlet.source for outlet in inputs]
        spread = tuple(pacts) if pacts is not None else (None,) * len(inputs)
        made = DescribedOperator(name, input_scopes, tuple(output_scopes), sources, spread, build, summaries, notify)
        made.by_substream = by_substream
        return self._add(made, divided)

    def add_output(self, outlet: Outlet) -> Outlet:
        described = self._operators[outlet.source.operator]
        described.output_scopes = (*described.output_scopes, outlet.scope)
        return replace(outlet, source=Source(outlet.source.operator, len(described.output_scopes) - 1))

    def add_input(self, to: Outlet, outlet: Outlet) -> None:
        """Let the operator with output ``to`` read one more stream of its scope."""
        described = self._operators[to.source.operator]
        self._check_ours(described.name, outlet)
        self._check_one_scope(described.name, (to.scope, outlet.scope))
        described.input_scopes = (*described.input_scopes, outlet.scope)
        described.sources.append(outlet.source)
        described.pacts = (*described.pacts, None)
        described.gathers = True

    def declare(self, name: str, outlet: Outlet, change: Callable[[Any], Build] | None = None) -> Outlet:
        """Declare that an operator divides the records at its first output into substreams.

        For an input, ``change`` turns its build function into one that divides the records.
        """
        index = outlet.source.operator
        self.register("declaration", name, DeclarationPlan(index, change is not None))
        if change is not None:
            self._operators[index].build = change(self._operators[index].build)
        return replace(outlet, substreams=frozenset([name]))

    def input_at(self, outlet: Outlet) -> str | None:
        return next((name for name, index in self._named["input"].items() if index == outlet.source.operator), None)

    def is_read(self, outlet: Outlet) -> bool:
        return any(outlet.source in operator.sources for operator in self._operators)

    def add_stage(
        self,
        name: str,
        outlet: Outlet,
        transform: Transform,
        pact: Pact | None = None,
        with_keys: KeyedTransform | None = None,
    ) -> Outlet:
        """Add a stateless operator. It sends ``transform(batch)`` at the time of each batch."""
        self._check_ours(name, outlet)
        scopes = (outlet.scope,)
        made = DescribedOperator(name, scopes, scopes, [outlet.source], (pact,), _build_nothing, None, notify=False)
        made.transform, made.with_keys = transform, with_keys
        return self._add(made, outlet.substreams)[0]

    def add_open_operator(self, name: str, scope: Scope, build: Build, summary: PathSummary) -> tuple[int, Outlet]:
        """Add the operator that closes a loop. Its only input stays open until `connect`."""
        summaries = {(0, 0): (summary,)}
        made = DescribedOperator(name, (scope,), (scope,), [None], (None,), build, summaries, notify=False)
        made.by_substream = True
        (outlet,) = self._add(made)
        return outlet.source.operator, outlet

    def connect(self, operator: int, outlet: Outlet) -> None:
        """Connect the open input of an operator.

        Raises:
            GraphError: the input is connected already, or ``outlet`` is in another scope or dataflow.
        """
        opened = self._operators[operator]
        self._check_ours(opened.name, outlet)
        if opened.sources[0] is not None:
            raise GraphError(
                f"{opened.name!r} is connected already: a feedback takes one stream, concat() several first"
            )
        if outlet.scope is not opened.input_scopes[0]:
            raise GraphError(
                f"{opened.name!r} is in {opened.input_scopes[0].describe()}, the stream connected to it in "
                f"{outlet.scope.describe()}: enter() or leave() first"
            )
        opened.sources[0] = outlet.source

    def register(self, kind: str, name: str, what: Any) -> None:
        """Name an input, capture or probe; raise GraphError if the name is taken or invalid."""
        article = "an" if kind == "input" else "a"
        if kind not in _PLACES:
            check_name(f"{article} {kind}", name, self._error)
        names = self._named[kind]
        if name in names:
            raise GraphError(
                f"dataflow {self.name!r} has {article} {kind} named {name!r} already: give this one another name"
            )
        names[name] = what

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """If the ``with`` block raises, remove all that it has added, so that a notebook's cell can run again."""
        size, names = len(self._operators), dict(self._names)
        named = {kind: dict(known) for kind, known in self._named.items()}
        attachments, effects = dict(self.attachments), dict(self.effects)
        side_by_side, ignored = list(self.side_by_side), set(self.ignored)
        inputs = [len(operator.sources) for operator in self._operators]
        try:
            yield
        except BaseException:
            del self._operators[size:]
            for operator, count in zip(self._operators, inputs, strict=True):
                del operator.sources[count:]
                operator.input_scopes, operator.pacts = operator.input_scopes[:count], operator.pacts[:count]
            self._names, self._named, self.attachments, self.effects = names, named, attachments, effects
            self.side_by_side, self.ignored = side_by_side, ignored
            raise

    def attach(self, name: str, attachment: Attachment) -> None:
        """Add an attachment of the job; raise GraphError if its name is taken."""
        if name in self.attachments:
            raise GraphError(f"dataflow {self.name!r} has a topic {name!r} already: give this one another name")
        self.attachments[name] = attachment

    @property
    def operators(self) -> Sequence[DescribedOperator]:
        return self._operators

    @property
    def probes(self) -> Mapping[str, Source]:
        return self._named["probe"]

    @property
    def size(self) -> int:
        return len(self._operators)

    def describe(self, source: Source) -> str:
        return f"{self._operators[source.operator].name!r}" + (f", output {source.port}" if source.port else "")

    def plan(self) -> Plan:
        """Check the whole dataflow, and return the form that workers run, in which chains of stages are fused.

        Raises:
            GraphError: a feedback was never connected, or a cycle does not strictly advance time.
        """
        check_substreams(self._operators, self._named["declaration"])
        read = {source for operator in self._operators for source in operator.sources}
        plan = Plan(
            self.name,
            tuple(operator.plan() for operator in self._operators),
            dict(self._named["input"]),
            dict(self._named["capture"]),
            dict(self._named["topic"]),
            dict(self._named["probe"]),
            dict(self._named["declaration"]),
            dict(self._named["lookup"]),
            frozenset(source for outputs in self.side_by_side for source in outputs.values() if source not in read),
        )
        fused = fuse(plan)
        declared_substreams(fused, CompiledGraph(fused.graph()))
        return fused

    def outline(self) -> Outline:
        # The registered name of a sink only distinguishes sinks. Messages to users show the name of its operator.
        named = {kind: known for kind, known in self._named.items() if kind != "sink"}
        marks = marks_by_operator(named, [operator.name for operator in self._operators])
        return Outline(
            self.name,
            self.root,
            tuple(operator.outline(self.root, marks.get(index, ())) for index, operator in enumerate(self._operators)),
        )

    def _add(self, made: DescribedOperator, substreams: frozenset[str] = frozenset()) -> tuple[Outlet, ...]:
        check_name("an operator", made.name, self._error, MOST_OF_OPERATORS)
        if not callable(made.build):
            raise GraphError(f"operator {made.name!r}: build must be a function of a context, not {made.build!r}")
        made.origin = origin_of(made.name)
        self._name(made, (*made.output_scopes, *made.input_scopes, self.root)[0])
        self._operators.append(made)
        sources = (Source(self.size - 1, port) for port in range(len(made.output_scopes)))
        return tuple(Outlet(self, *place, substreams) for place in zip(sources, made.output_scopes, strict=True))

    def _error(self, said: str) -> GraphError:
        return GraphError(f"dataflow {self.name!r}: {said}")

    def _name(self, made: DescribedOperator, scope: Scope) -> None:
        full = f"{scope.path}/{made.name}" if scope.path else made.name
        unique, count = full, self._names.get(full, 0)
        while unique in self._names:
            count += 1
            unique = f"{full}-{count}"
        self._names[full] = max(count, 1)
        self._names[unique] = 1
        made.name, made.base_name = unique, full

    def _check_ours(self, name: str, outlet: Outlet) -> None:
        if outlet.description is not self:
            raise GraphError(
                f"operator {name!r} of dataflow {self.name!r} cannot read a stream of dataflow "
                f"{outlet.description.name!r}: publish it there and subscribe to it here"
            )
        if outlet.scope.is_over:
            raise GraphError(f"operator {name!r} reads what is within iterate() from outside of it: use its result")
        for declared, plan in self._named["declaration"].items():
            if plan.operator == outlet.source.operator and not outlet.substreams:
                raise GraphError(
                    f"operator {name!r} reads a stream that was divided into the substreams {declared!r} since: let it "
                    "read the stream that substreams() has returned"
                )

    def check_inputs(self, name: str, inputs: Sequence[Outlet]) -> Sequence[Outlet]:
        """Return ``inputs``; raise GraphError unless all have the same dataflow and scope."""
        for outlet in inputs:
            self._check_ours(name, outlet)
        self._check_one_scope(name, [outlet.scope for outlet in inputs])
        return inputs

    def _check_one_scope(self, name: str, scopes: Sequence[Scope]) -> None:
        for scope in scopes[1:]:
            if scope is not scopes[0]:
                raise GraphError(
                    f"operator {name!r} joins streams of {scopes[0].describe()} and of {scope.describe()}: "
                    "enter() or leave() first, so that their times are of one kind"
                )


def _build_nothing(context: Any) -> Any:
    """The build function of an operator with a transform. It is never called."""
    raise AssertionError(f"operator {context.name!r} is a stage")


class Described:
    """The base of `Dataflow`, which hides the description from users."""

    __slots__ = ("_description",)

    def __init__(self, description: DataflowDescription) -> None:
        self._description = description


def description_of(flow: object, caller: str = "this function") -> DataflowDescription:
    """Return a dataflow's description; raise GraphError, naming the caller, for anything else."""
    if not isinstance(flow, Described):
        raise GraphError(f"{caller} takes a Dataflow, not {flow!r}")
    return flow._description
