"""Connecting the operators of one worker, before they are built."""

from typing import TYPE_CHECKING, TypeAlias

from tidewheel.progress import CompiledGraph, Source, Target
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.substreams.waiting_ends import WaitingEnds
from tidewheel.runtime.worker.channel import Channel
from tidewheel.runtime.worker.input_port import InputPort
from tidewheel.runtime.worker.operator_instance import OperatorInstance
from tidewheel.runtime.worker.output_port import OutputPort

if TYPE_CHECKING:
    from tidewheel.runtime.worker.worker_core import WorkerCore

Edges: TypeAlias = list[tuple[Source, Target, Channel]]
"""The ends of each edge, and what this worker sends over it."""


def wire(core: "WorkerCore", plan: Plan, compiled: CompiledGraph, instances: list[OperatorInstance]) -> Edges:
    """Give each of ``instances``, one for each operator of ``plan``, its ports; connect these and return the edges."""
    for index, (operator, instance) in enumerate(zip(plan.operators, instances, strict=True)):
        instance.inputs = tuple(
            _input_port(core, plan, compiled, instance, Target(index, port))
            for port in range(len(operator.shape.inputs))
        )
        instance.outputs = tuple(
            OutputPort(core, instance, port, compiled.index[Source(index, port)], nesting.domain)
            for port, nesting in enumerate(operator.shape.outputs)
        )
    edges: Edges = []
    for index, operator in enumerate(plan.operators):
        for port, source in enumerate(operator.sources):
            asking = operator.stages[0].name if operator.stages else operator.name
            channel = Channel(instances[index].inputs[port], index, asking, operator.pacts[port])
            instances[source.operator].outputs[source.port].connect(channel)
            edges.append((source, Target(index, port), channel))
    return edges


def _input_port(
    core: "WorkerCore", plan: Plan, compiled: CompiledGraph, instance: OperatorInstance, at: Target
) -> InputPort:
    shape = plan.operators[at.operator].shape
    paths = [shape.summaries.get((at.port, output), ()) for output in range(len(shape.outputs))]
    made = InputPort(core, instance, at.port, compiled.index[at], at.operator, paths)
    if plan.operators[at.operator].ends is not None:
        made.ends = WaitingEnds()
    return made
