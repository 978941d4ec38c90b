"""State by substream, which is dropped when the substream has ended."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from tidewheel.batches.batches import Batch, records
from tidewheel.operators.base.division import Division, split_by_key, updated
from tidewheel.operators.epochs.keyed_state import EpochStep, Kept
from tidewheel.progress import Time
from tidewheel.runtime.description.plan import Build, Schedule
from tidewheel.runtime.messages.labels import Label, Labels, MixedLabel, parts_by_key
from tidewheel.runtime.tokens.notificator import Notificator
from tidewheel.runtime.tokens.timestamp_token import LentToken
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort, running_input, running_output


def build_state_by_substream(step: EpochStep) -> Build:
    """Build an operator that processes the complete epochs of each substream separately.

    It drops the state of a substream once the substream has ended and its last epoch is processed.
    """
    return lambda context: _Share(context, step).schedule


class _Share:
    """The operator on one worker."""

    def __init__(self, context: OperatorContext, step: EpochStep) -> None:
        self._step = step
        self._kept: dict[Any, Kept] = context.state("substreams", dict)
        self._epochs: dict[tuple[Time, Labels | None], list[Batch]] = context.state("epochs", dict)
        self._waiting: dict[Any, int] = context.state("waiting", dict)
        """For each key, the number of epochs that are not processed yet."""
        self._ended: dict[Any, list[int]] = context.state("ended", dict)
        """For each key and each of its ended substreams, in order: the number of epochs to process before its state is
        dropped."""
        self._notificator = context.notificator()

    def schedule(self, input: InputPort, output: OutputPort) -> None:
        for lent, batch in input:
            place = lent.time, lent.label
            if place not in self._epochs:
                self._epochs[place] = []
                self._waiting[lent.key] = self._waiting.get(lent.key, 0) + 1
                self._notificator.notify_at(lent)
            self._epochs[place].append(batch)
        for key in input.ended:
            if key in self._waiting:
                self._ended.setdefault(key, []).append(self._waiting[key])
            else:
                self._kept.pop(key, None)
        for token in self._notificator.ready(input):
            batches = self._epochs.pop((token.time, token.label))
            output.send(token, self._step.process(self._kept.setdefault(token.key, {}), batches))
            self._count(token.key)

    def _count(self, key: Any) -> None:
        self._waiting[key] -= 1
        if not self._waiting[key]:
            del self._waiting[key]
        if key in self._ended:
            left = [epochs - 1 for epochs in self._ended.pop(key)]
            if not left[0]:
                del self._kept[key]
            if any(left):
                self._ended[key] = [epochs for epochs in left if epochs]


Collected: TypeAlias = dict[Any, tuple[Label, Time, list[Any]]]
"""For each key: the label, the latest time, and the records."""


def build_collect(result: Callable[[Any, list[Any]], Any]) -> Build:
    """Build an operator that sends ``result(key, records)`` when a substream has ended."""

    def build(context: OperatorContext) -> Schedule:
        collected: Collected = Division(split_by_key, updated).state(context, "collected", dict)
        tokens = context.notificator()
        tokens._drop_others({(time, label) for label, time, _ in collected.values()})

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
    label = lent.label
    if not isinstance(label, MixedLabel):
        yield lent, rows
        return
    for key, part in parts_by_key(rows, label.keys):
        yield lent._of((label.declaration, key)), part


def _collect(collected: Collected, tokens: Notificator, lent: LentToken, rows: list[Any], output: OutputPort) -> None:
    label = lent.label
    if not isinstance(label, tuple):
        return  # the token belongs to no substream, as can be where streams are joined
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
