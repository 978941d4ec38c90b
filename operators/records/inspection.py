"""Operators that show a function what goes by, and pass it on unchanged."""

from collections.abc import Callable
from typing import Any

from tidewheel.progress import Antichain, Time
from tidewheel.runtime import Build, InputPort, OperatorContext, OutputPort, Schedule
from tidewheel.transport.batches import Batch, records


def build_inspect_batches(function: Callable[[Batch, Time, int], object]) -> Build:
    """Return the build function of an operator that calls ``function(batch, time, worker)`` and sends that batch."""

    def build(context: OperatorContext) -> Schedule:
        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in input:
                function(batch, lent.time, context.worker)
                output.send(lent, batch)

        return schedule

    return build


def build_inspect_with_time(function: Callable[[Any, Time, int], object]) -> Build:
    """Return the build function of an operator that calls ``function(record, time, worker)`` and sends its batch."""

    def look(batch: Batch, time: Time, worker: int) -> None:
        for record in records(batch):
            function(record, time, worker)

    return build_inspect_batches(look)


def build_on_frontier(function: Callable[[Antichain, int], object]) -> Build:
    """Return the build function of an operator that calls ``function(frontier, worker)`` when its frontier moved."""

    def build(context: OperatorContext) -> Schedule:
        seen: list[Antichain] = context.state("frontier", list)

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in input:
                output.send(lent, batch)
            frontier = input.frontier
            if not seen:
                seen.append(Antichain(frontier.domain, [frontier.domain.minimum()]))
            if frontier is not seen[0] and frontier != seen[0]:
                seen[0] = frontier
                function(frontier, context.worker)

        return schedule

    return build
