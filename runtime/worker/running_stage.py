"""A stateless operator at work on one worker: one stage of a chain that runs as one operator."""

from collections.abc import Callable
from typing import Any

from tidewheel.runtime.description.plan import Stage
from tidewheel.transport.batches import Batch, check_batch, length


class StageError(Exception):
    """A stage failed: the cause is what its function raised, and ``args`` has the stage's name."""


class RunningStage:
    """One stage on one worker, with counts of its work so far.

    Attributes:
        messages_in, records_in: what it has received.
        messages_out, records_out: what it has sent.
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
