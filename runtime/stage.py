"""Oblivious operators: a function from batch to batch that looks at no frontier and keeps no token.

Progress tracking need not know of them. Joined by edges that stay on a worker they run as stages of one operator, one
after the other on each batch: nothing is queued, counted or scheduled in between. See `tidewheel.runtime.fusion`.
"""

from collections.abc import Callable

from tidewheel.runtime.batches import Batch, check_batch, length
from tidewheel.runtime.operator_context import OperatorContext
from tidewheel.runtime.plan import Build, Schedule, Stage
from tidewheel.runtime.ports import InputPort, OutputPort


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
        self._clock = clock
        self.messages_in = self.messages_out = self.records_in = self.records_out = 0
        self.seconds = 0.0

    def run(self, batch: Batch, count: int) -> tuple[Batch, int]:
        """Return what the stage makes of a batch of ``count`` records, and how many it has. Raises StageError."""
        self.messages_in += 1
        self.records_in += count
        started = self._clock()
        try:
            result = self._transform(batch)
            if type(result) is not list:
                check_batch(result)
        except (Exception, SystemExit, GeneratorExit) as error:
            raise StageError(self.name) from error
        self.seconds += self._clock() - started
        count = length(result)
        if count:
            self.messages_out += 1
            self.records_out += count
        return result, count


def build_stages(stages: tuple[Stage, ...]) -> Build:
    """Return the build function of an operator that sends each batch, changed by all stages in turn, at its time."""

    def build(context: OperatorContext) -> Schedule:
        running = context.stages = [RunningStage(stage, context.clock) for stage in stages]

        def schedule(input: InputPort, output: OutputPort) -> None:
            for token, received in input:
                batch, count = received, length(received)
                for stage in running:
                    batch, count = stage.run(batch, count)
                    if not count:
                        break
                else:
                    output.send(token, batch)

        return schedule

    return build
