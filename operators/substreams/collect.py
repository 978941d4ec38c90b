"""State by substream, which goes when the substream has ended."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from tidewheel.progress import Time
from tidewheel.runtime import Build, LentToken, Notificator, Schedule
from tidewheel.runtime.substreams.labels import Label, MixedLabel, parts_by_key
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort, running_input, running_output
from tidewheel.transport.batches import records

Collected: TypeAlias = dict[Any, tuple[Label, Time, list[Any]]]
"""By key: the label, the latest time, and the records."""


def build_collect(result: Callable[[Any, list[Any]], Any]) -> Build:
    """Return the build function of an operator that sends ``result(key, records)`` when a substream has ended."""

    def build(context: OperatorContext) -> Schedule:
        collected: Collected = context.state("collected", dict)
        tokens = context.notificator()

        def schedule(input: InputPort, output: OutputPort) -> None:
            for lent, batch in running_input(input).whole():
                for lent_for, rows in _by_key(lent, records(batch)):
                    _collect(collected, tokens, lent_for, rows, output)
            for key in input.ended:
                if key in collected:
                    label, time, rows = collected.pop(key)
                    instance_of(context).work_at(time)
                    with tokens.take(time, label) as token:
                        output.send(token, [result(key, rows)])

        return schedule

    return build


def _by_key(lent: LentToken, rows: list[Any]) -> Iterator[tuple[LentToken, list[Any]]]:
    """Yield the records of each substream of a message, with the token that is lent for them."""
    label = lent.label
    if not isinstance(label, MixedLabel):
        yield lent, rows
        return
    for key, part in parts_by_key(rows, label.keys):
        yield lent.of((label.declaration, key)), part


def _collect(collected: Collected, tokens: Notificator, lent: LentToken, rows: list[Any], output: OutputPort) -> None:
    """Add records to those of their substream, and keep the token of the latest time of them."""
    label = lent.label
    if not isinstance(label, tuple):
        return  # of no substream, as can be where streams are joined
    found = collected.get(label[1])
    if found is None:
        tokens.notify_at(lent, output)
        collected[label[1]] = (label, lent.time, list(rows))
        return
    _, time, before = found
    before += rows
    if lent.time != time and running_output(output).domain.in_order([time, lent.time])[-1] == lent.time:
        tokens.notify_at(lent, output)
        tokens.take(time, label).discard()
        collected[label[1]] = (label, lent.time, before)
