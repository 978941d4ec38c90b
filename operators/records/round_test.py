"""The test that ends a loop: after each round, worker 0 decides for all workers whether the loop goes on.

Each worker measures and keeps its records that are to go round again. When the round is complete, worker 0 tests the
combined measure and sends its verdict to every worker. So no record of the next round exists before every worker has
finished this round.

Source: the aggregators of Pregel (SIGMOD 2010), section 3.3, in the supersteps of Valiant's bulk-synchronous model.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from reprlib import repr as short
from typing import Any

from tidewheel.batches.batches import Batch, is_arrow
from tidewheel.operators.keys.record_keys import Keys, check_column
from tidewheel.progress import Time
from tidewheel.runtime.tokens.timestamp_token import TimestampToken


@dataclass(frozen=True, slots=True)
class RoundTest:
    """The conditions that end a loop before a round without records does.

    Attributes:
        until: gets the combined measure of a round, and tells whether the loop ends.
        rounds: how often records pass the body at most.
    """

    until: Callable[[Any], object] = lambda _: False
    measure: Keys | None = None
    combine: Callable[[Any, Any], Any] = add
    rounds: int | None = None

    def measured(self, batch: Batch) -> list[Any]:
        if self.measure is None:
            return [0]
        key = self.measure.key
        if self.combine is add and isinstance(key, str) and is_arrow(batch):
            import pyarrow as pa
            import pyarrow.compute as pc

            check_column(batch, key)
            if pa.types.is_floating(batch.schema.field(key).type):
                return [pc.sum(batch.column(key), skip_nulls=False).as_py()]
        return self.combined([], self.measure.of(batch))

    def combined(self, known: list[Any], measured: list[Any]) -> list[Any]:
        """Combine all measures into one and return it in a list; raise TypeError if it is None."""
        together = reduce(self.combine, [*known, *measured])
        if together is None:
            raise TypeError("records of a round measure None together: measure and combine must return a value")
        return [together]

    def verdict(self, measured: list[Any]) -> list[bool]:
        """Return a list with one bool, whether the loop ends; raise TypeError if ``until`` has returned None."""
        ends = self.until(measured[0])
        if ends is None:
            raise TypeError(f"until returned None for {short(measured[0])}: it must return whether the loop ends")
        return [bool(ends)]

    def send(self, _: Any, batches: list[list[Batch]], token: TimestampToken) -> Sequence[Iterable[Batch]]:
        """Return, for each output, the batches of this worker in a complete round."""
        records, verdicts, *beside = batches
        if verdicts and not verdicts[0][0] and self.may_go_on(token.time):  # no verdict: no worker has records
            return [records, [], *beside]
        return [[], records, *([] for _ in beside)]

    def may_go_on(self, time: Time) -> bool:
        """Tell whether the limit of rounds lets records of this time go round again."""
        return self.rounds is None or time[1] + 1 < self.rounds
