"""State by substream, which goes when the substream has ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidewheel.runtime.batches import records
from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.plan import Build, Schedule
from tidewheel.runtime.ports import InputPort, OutputPort
from tidewheel.runtime.tokens import TimestampToken


@dataclass(slots=True)
class _Collected:
    token: TimestampToken
    records: list[Any] = field(default_factory=list)


def build_collect(result: Callable[[Any, list[Any]], Any]) -> Build:
    """Return the build function of an operator that sends ``result(key, records)`` when a substream has ended."""

    def build(context: OperatorContext) -> Schedule:
        collected: dict[Any, _Collected] = {}

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in input:
                found = collected.get(lent.key)
                if found is None:
                    found = collected[lent.key] = _Collected(lent.retain(output))
                elif lent.time != found.token.time:
                    _take_forward(found, lent.retain(output), output)
                found.records += records(batch)
            for key in input.ended:
                whole = collected.pop(key, None)
                if whole is not None:
                    with whole.token as token:
                        context.working_at(token.time)
                        output.send(token, [result(key, whole.records)])

        return schedule

    return build


def _take_forward(found: _Collected, other: TimestampToken, output: OutputPort) -> None:
    """Keep the later of two tokens."""
    earlier, later = (
        (found.token, other)
        if output.domain.in_order([found.token.time, other.time])[-1] == other.time
        else (other, found.token)
    )
    found.token = later
    earlier.discard()
