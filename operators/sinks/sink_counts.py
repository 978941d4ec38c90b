"""The counts of a sink on one worker, which its operators share."""

from collections.abc import Collection
from dataclasses import dataclass, field

from tidewheel.progress import Time
from tidewheel.runtime.messages.connector_numbers import SinkNumbers
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of


@dataclass(slots=True)
class SinkCounts:
    """What a sink has committed in this run, and which epochs wait.

    Attributes:
        waiting: the epochs that each of its operators holds.
        committed: when it has last committed an epoch, in seconds since 1970; None before the first.
    """

    waiting: list[Collection[Time]] = field(default_factory=list)
    records: int = 0
    epochs: int = 0
    committed: float | None = None

    def commit(self, records: int, now: float) -> None:
        """Count an epoch that was committed at ``now``, in seconds since 1970."""
        self.records += records
        self.epochs += 1
        self.committed = now

    def numbers(self) -> SinkNumbers:
        waiting = {time for epochs in self.waiting for time in epochs}
        return SinkNumbers(self.records, self.epochs, len(waiting), self.committed)


def counts_of(context: OperatorContext, key: str) -> SinkCounts:
    """Return the counts that the operators of a sink share on one worker; ``key`` is unique in the dataflow."""
    found: SinkCounts = host_of(context).shared.setdefault(f"counts of {key}", SinkCounts())
    return found
