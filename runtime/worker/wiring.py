"""Connecting the operators of one worker, before they are built."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tidewheel.progress import CompiledGraph, Source, Target
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.substreams.substream_channel import SubstreamChannel
from tidewheel.runtime.substreams.substream_input import SubstreamInput
from tidewheel.runtime.substreams.substream_instance import SubstreamInstance
from tidewheel.runtime.substreams.substream_output import SubstreamOutput
from tidewheel.runtime.substreams.waiting_ends import WaitingEnds
from tidewheel.runtime.worker.channel import Channel
from tidewheel.runtime.worker.operator_instance import OperatorInstance
from tidewheel.runtime.worker.port_host import PortHost
from tidewheel.runtime.worker.running_input import RunningInput
from tidewheel.runtime.worker.running_output import RunningOutput

Edges: TypeAlias = list[tuple[Source, Target, Channel]]
"""The ends of each edge, and what this worker sends over it."""


@dataclass(frozen=True, slots=True)
class _Kinds:
    """The classes of which operators, ports and channels are."""

    instance: type[OperatorInstance] = OperatorInstance
    input: type[RunningInput] = RunningInput
    output: type[RunningOutput] = RunningOutput
    channel: type[Channel] = Channel


_OF_SUBSTREAMS = _Kinds(SubstreamInstance, SubstreamInput, SubstreamOutput, SubstreamChannel)


def wire(
    core: PortHost, plan: Plan, compiled: CompiledGraph, clock: Callable[[], float]
) -> tuple[list[OperatorInstance], Edges]:
    """Make an instance of each operator of ``plan`` with its ports; connect these, and return instances and edges.

    Only a dataflow that declares substreams has ports and channels that know of them.
    """
    kinds = _OF_SUBSTREAMS if plan.declarations else _Kinds()
    instances = [kinds.instance(operator.name, operator.notify, clock) for operator in plan.operators]
    for index, (operator, instance) in enumerate(zip(plan.operators, instances, strict=True)):
        instance.inputs = tuple(
            _input_port(kinds, core, plan, compiled, instance, Target(index, port))
            for port in range(len(operator.shape.inputs))
        )
        instance.outputs = tuple(
            kinds.output(core, instance, port, compiled.index[Source(index, port)], nesting.domain)
            for port, nesting in enumerate(operator.shape.outputs)
        )
    edges: Edges = []
    for index, operator in enumerate(plan.operators):
        for port, source in enumerate(operator.sources):
            asking = operator.stages[0].name if operator.stages else operator.name
            channel = kinds.channel(instances[index].inputs[port], core.worker, index, asking, operator.pacts[port])
            instances[source.operator].outputs[source.port].connect(channel)
            edges.append((source, Target(index, port), channel))
    return instances, edges


def _input_port(
    kinds: _Kinds, core: PortHost, plan: Plan, compiled: CompiledGraph, instance: OperatorInstance, at: Target
) -> RunningInput:
    shape = plan.operators[at.operator].shape
    paths = [shape.summaries.get((at.port, output), ()) for output in range(len(shape.outputs))]
    made = kinds.input(core, instance, at.port, compiled.index[at], at.operator, paths)
    if isinstance(made, SubstreamInput) and plan.operators[at.operator].ends is not None:
        made.ends = WaitingEnds()
    return made
