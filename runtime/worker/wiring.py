"""Connects one worker's operators, before they are built."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from tidewheel.progress import CompiledGraph, Target
from tidewheel.progress.graph import Source
from tidewheel.runtime.description.declared import DeclaredSubstreams
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.worker.firm_mailbox import FirmMailbox, WaitingEnds
from tidewheel.runtime.worker.operator_host import OperatorHost
from tidewheel.runtime.worker.operator_instance import OperatorInstance
from tidewheel.runtime.worker.ports import Channel, RunningInput, RunningOutput
from tidewheel.runtime.worker.substream_ports import (
    SubstreamChannel,
    SubstreamInput,
    SubstreamInstance,
    SubstreamOutput,
)

Edges: TypeAlias = list[tuple[Source, Target, Channel]]
"""The source and the target of each edge, and the channel by which this worker sends over the edge."""


_Kinds: TypeAlias = tuple[type[OperatorInstance], type[RunningInput], type[RunningOutput], type[Channel]]
"""The classes of operators, inputs, outputs and channels."""

_PLAIN: _Kinds = (OperatorInstance, RunningInput, RunningOutput, Channel)
_OF_SUBSTREAMS: _Kinds = (SubstreamInstance, SubstreamInput, SubstreamOutput, SubstreamChannel)


def wire(
    host: OperatorHost,
    plan: Plan,
    compiled: CompiledGraph,
    declared: tuple[DeclaredSubstreams, ...],
    attachments: Mapping[str, Any],
) -> tuple[list[OperatorInstance], Edges]:
    """Return an instance of each operator of ``plan`` with connected ports, and the edges.

    Ports and channels know substreams only if the dataflow declares substreams. Some edges depend on ``attachments``.
    """
    make_instance, make_input, make_output, make_channel = _OF_SUBSTREAMS if declared else _PLAIN
    asides = plan.aside_outputs()
    instances = [
        make_instance(index, operator.name, operator.notify, host.clock)
        for index, operator in enumerate(plan.operators)
    ]
    for index, (operator, instance) in enumerate(zip(plan.operators, instances, strict=True)):
        shape = operator.shape
        instance.in_loop = any(nesting.depth for nesting in shape.outputs)
        paths = [
            [shape.summaries.get((port, output), ()) for output in range(len(shape.outputs))]
            for port in range(len(shape.inputs))
        ]
        instance.inputs = tuple(
            make_input(host, instance, port, compiled.index[compiled.graph.target(index, port, host.worker)], out)
            for port, out in enumerate(paths)
        )
        instance.outputs = tuple(
            make_output(host, instance, port, compiled.index[Source(index, port)], nesting.domain)
            for port, nesting in enumerate(shape.outputs)
        )
        for output in instance.outputs:
            output.drops = Source(index, output.port) in plan.dropping
            output.is_aside = Source(index, output.port) in asides
        for entry in instance.inputs if operator.ends is not None else ():
            assert isinstance(entry, SubstreamInput), "an operator that asks for ends reads a stream with substreams"
            entry.ends = WaitingEnds()
    for one in declared:
        _receive_firmly(host, plan, compiled, one, instances)
    edges: Edges = []
    for index, operator in enumerate(plan.operators):
        for port, source in enumerate(operator.sources):
            asking = operator.stages[0].name if operator.stages else operator.name
            entry = instances[index].inputs[port]
            described = operator.pacts[port]
            pact = None if described is None else described.beside(attachments, host.worker)
            locations = [compiled.index[compiled.graph.target(index, port, peer)] for peer in range(host.workers)]
            channel = make_channel(host, locations, entry.put, index, asking, plan.name_at(source), pact)
            instances[source.operator].outputs[source.port].channels.append(channel)
            edges.append((source, Target(index, port), channel))
    return instances, edges


def _receive_firmly(
    host: OperatorHost,
    plan: Plan,
    compiled: CompiledGraph,
    declared: DeclaredSubstreams,
    instances: list[OperatorInstance],
) -> None:
    for at in declared.firm:
        instance = instances[at.operator]
        port = instance.inputs[at.port]
        assert isinstance(port, SubstreamInput), "the dataflow declares substreams"
        assert isinstance(instance, SubstreamInstance), "the dataflow declares substreams"
        shape = plan.operators[at.operator].shape
        outputs = [Source(at.operator, number) for number in range(len(shape.outputs))]
        led_to = tuple(compiled.index[one] for one in outputs if shape.summaries.get((at.port, one.port)))
        port.ends, port.firm = None, FirmMailbox(host, port, led_to, takes_turns=at in declared.turns)
        port.put = port.firm.put
        instance.firm += (port,)
