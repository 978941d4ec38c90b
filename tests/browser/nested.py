"""A dataflow with a nested loop, for the page of real jobs."""

from typing import Any

import tidewheel as tw

KEPT_AT = 3


def _keep(context: tw.OperatorContext) -> Any:
    """Build an operator that passes everything on, and never returns the token of one epoch."""
    kept: list[tw.TimestampToken] = []

    def schedule(input: tw.InputPort, output: tw.OutputPort) -> None:
        for token, batch in input:
            if token.time == KEPT_AT and not kept:
                kept.append(token.retain())
            output.send(token, batch)

    return schedule


def nested(flow: tw.Dataflow, stream: Any, *, keeps: bool) -> None:
    """Put two loops, one in the other, behind a stream of pairs, and an operator that may keep a token."""

    def inner(numbers: Any) -> tuple[Any, Any]:
        halves = numbers.map(lambda pair: (pair[0], pair[1] // 2), name="halve")
        return halves.filter(lambda pair: pair[1] > 1), halves.filter(lambda pair: pair[1] <= 1)

    def outer(pairs: Any) -> tuple[Any, Any]:
        steps = pairs.iterate(inner).map(lambda pair: (pair[0] - 1, pair[0]), name="step")
        return steps.filter(lambda pair: pair[0] > 0), steps

    steps = stream.iterate(outer)
    (steps.unary(_keep, name="keep") if keeps else steps).probe("done").publish("steps")


def nested_flow(name: str, *, keeps: bool) -> tw.Dataflow:
    """Describe the loops behind an input ``pairs``."""
    flow = tw.Dataflow(name)
    nested(flow, flow.input("pairs"), keeps=keeps)
    return flow
