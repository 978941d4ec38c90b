"""The build function of stateless operators, each of which is a function from batch to batch.

A stateless operator looks at no frontier and keeps no token, so progress tracking need not know of it. Stateless
operators that are joined by edges within a worker run as stages of one operator, one after the other on each batch.
Nothing is queued, counted or scheduled between them. See `fusion.py`.
"""

from tidewheel.runtime.description.plan import Build, Schedule, Stage
from tidewheel.runtime.substreams.labels import MixedLabel, labels_of, parts_by_key
from tidewheel.runtime.tokens.timestamp_token import LentToken
from tidewheel.runtime.worker.input_port import InputPort, running_input
from tidewheel.runtime.worker.operator_context import OperatorContext, instance_of
from tidewheel.runtime.worker.output_port import OutputPort, running_output
from tidewheel.runtime.worker.running_output import RunningOutput
from tidewheel.runtime.worker.running_stage import RunningStage
from tidewheel.transport.batches import Batch, length


def build_stages(stages: tuple[Stage, ...]) -> Build:
    """Return the build function of an operator that sends each batch, changed by all stages in turn, at its time."""

    def build(context: OperatorContext) -> Schedule:
        instance = instance_of(context)
        running = instance.stages = [RunningStage(stage, instance.clock) for stage in stages]

        def schedule(input: InputPort, output: OutputPort) -> None:
            sender = running_output(output)
            for token, batch in running_input(input).whole():
                if isinstance(token.label, MixedLabel):
                    _send_with_keys(running, token, batch, sender)
                else:
                    _send(running, token, batch, sender)

        return schedule

    return build


def _send(stages: list[RunningStage], token: LentToken, batch: Batch, output: RunningOutput) -> None:
    """Send what the stages make of a batch of one substream, or of none."""
    count = length(batch)
    for stage in stages:
        batch, count = stage.run(batch, count)
        if not count:
            return
    output.send(token, batch)


def _send_with_keys(stages: list[RunningStage], token: LentToken, batch: Batch, output: RunningOutput) -> None:
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
