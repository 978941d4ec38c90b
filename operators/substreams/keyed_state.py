"""State by key that goes when its substream has ended."""

from typing import Any

from tidewheel.operators.epochs.keyed_state import EpochStep, Kept
from tidewheel.progress import Time
from tidewheel.runtime import Build, InputPort, OperatorContext, OutputPort, Schedule
from tidewheel.runtime.substreams.labels import Labels
from tidewheel.transport.batches import Batch


def build_state_by_substream(step: EpochStep) -> Build:
    """Return the build function of an operator that processes the complete epochs of each substream by themselves.

    What it keeps of a substream is dropped once that has ended and its last epoch was processed.
    """

    def build(context: OperatorContext) -> Schedule:
        return _Share(context, step).schedule

    return build


class _Share:
    """One worker's share of the operator."""

    def __init__(self, context: OperatorContext, step: EpochStep) -> None:
        self._step = step
        self._kept: dict[Any, Kept] = context.state("substreams", dict)
        self._epochs: dict[tuple[Time, Labels | None], list[Batch]] = context.state("epochs", dict)
        self._waiting: dict[Any, int] = context.state("waiting", dict)
        """How many epochs of a substream are to be processed."""
        self._ended: dict[Any, list[int]] = context.state("ended", dict)
        """After how many of those a substream is over, for each that had the key, in order."""
        self._notificator = context.notificator()

    def schedule(self, input: InputPort, output: OutputPort) -> None:
        """Take in records and ends, and process what is complete."""
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
        for token in self._notificator.ready(input, sequential=True):
            batches = self._epochs.pop((token.time, token.label))
            output.send(token, self._step.process(self._kept.setdefault(token.key, {}), batches))
            self._count(token.key)

    def _count(self, key: Any) -> None:
        """Count an epoch as processed, and drop what is kept if it was the last."""
        self._waiting[key] -= 1
        if not self._waiting[key]:
            del self._waiting[key]
        if key in self._ended:
            left = [epochs - 1 for epochs in self._ended.pop(key)]
            if not left[0]:
                del self._kept[key]
            if any(left):
                self._ended[key] = [epochs for epochs in left if epochs]
