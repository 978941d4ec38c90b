"""Oblivious operators: a function from batch to batch that looks at no frontier and keeps no token.

Progress tracking need not know of them. Joined by edges that stay on a worker they run as stages of one operator, one
after the other on each batch: nothing is queued, counted or scheduled in between. See `fusion.py`.
"""

from collections.abc import Callable
from typing import Any

from tidewheel.runtime.description.plan import Build, Schedule, Stage
from tidewheel.runtime.substreams.labels import MixedLabel, labels_of, parts_by_key
from tidewheel.runtime.tokens.timestamp_token import LentToken
from tidewheel.runtime.worker.input_port import InputPort
from tidewheel.runtime.worker.operator_context import OperatorContext
from tidewheel.runtime.worker.output_port import OutputPort
from tidewheel.transport.batches import Batch, check_batch, length


class StageError(Exception):
    """A stage failed: what went wrong is the cause, and ``args`` has the stage's name."""


class RunningStage:
    """One stage on one worker, with what it has done so far.

    Attributes:
        messages_in, records_in: what it has taken.
        messages_out, records_out: what it has passed on.
        seconds: how long its function has run.
    """

    __slots__ = (
        "_clock",
        "_transform",
        "_with_keys",
        "messages_in",
        "messages_out",
        "name",
        "records_in",
        "records_out",
        "seconds",
    )

    def __init__(self, stage: Stage, clock: Callable[[], float]) -> None:
        self.name = stage.name
        self._transform = stage.transform
        self._with_keys = stage.with_keys
        self._clock = clock
        self.messages_in = self.messages_out = self.records_in = self.records_out = 0
        self.seconds = 0.0

    def run(self, batch: Batch, count: int) -> tuple[Batch, int]:
        """Return what the stage makes of a batch of ``count`` records, and how many it has. Raises StageError."""
        made, count, _ = self._run(batch, count, None)
        return made, count

    @property
    def keeps_keys_apart(self) -> bool:
        """Whether it does what it does to batches of several substreams."""
        return self._with_keys is not None

    def run_with_keys(self, batch: Batch, count: int, keys: list[Any]) -> tuple[Batch, int, list[Any]]:
        """Return as `run` does what it makes of a batch of several substreams, and the keys of that."""
        made, count, kept = self._run(batch, count, keys)
        assert kept is not None, "there were keys"
        return made, count, kept

    def _run(self, batch: Batch, count: int, keys: list[Any] | None) -> tuple[Batch, int, list[Any] | None]:
        self.messages_in += 1
        self.records_in += count
        started = self._clock()
        try:
            if keys is None:
                result = self._transform(batch)
            else:
                assert self._with_keys is not None, "others get the records of one key at a time"
                result, keys = self._with_keys(batch, keys)
            if type(result) is not list:
                check_batch(result)
        except (Exception, SystemExit, GeneratorExit) as error:
            raise StageError(self.name) from error
        self.seconds += self._clock() - started
        count = length(result)
        if count:
            self.messages_out += 1
            self.records_out += count
        return result, count, keys


def build_stages(stages: tuple[Stage, ...]) -> Build:
    """Return the build function of an operator that sends each batch, changed by all stages in turn, at its time."""

    def build(context: OperatorContext) -> Schedule:
        running = context.stages = [RunningStage(stage, context.clock) for stage in stages]

        def schedule(input: InputPort, output: OutputPort) -> None:
            for token, batch in input.whole():
                if isinstance(token.label, MixedLabel):
                    _send_with_keys(running, token, batch, output)
                else:
                    _send(running, token, batch, output)

        return schedule

    return build


def _send(stages: list[RunningStage], token: LentToken, batch: Batch, output: OutputPort) -> None:
    """Send what the stages make of a batch of one substream, or of none."""
    count = length(batch)
    for stage in stages:
        batch, count = stage.run(batch, count)
        if not count:
            return
    output.send(token, batch)


def _send_with_keys(stages: list[RunningStage], token: LentToken, batch: Batch, output: OutputPort) -> None:
    """Send what they make of a batch of several: from the first that is for batches of one, each by itself."""
    label = token.label
    assert isinstance(label, MixedLabel), "others have no keys"
    count, keys = length(batch), label.keys
    for number, stage in enumerate(stages):
        if not stage.keeps_keys_apart:
            for key, part in parts_by_key(batch, keys):
                _send(stages[number:], token.of((label.declaration, key)), part, output)
            return
        batch, count, keys = stage.run_with_keys(batch, count, keys)
        if not count:
            return
    output.send_labelled(token, batch, label if keys is label.keys else labels_of(label.declaration, keys))
