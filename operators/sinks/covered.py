"""The operator that implements ``visible="snapshot"``: it sends the records of an epoch when a snapshot has them.

Invariants:

- Each worker holds the records of an epoch until the epoch is complete and a durable snapshot has them all. So a job
  that goes back sends the same records of an epoch again, whatever its operators compute the second time.
- The snapshots of all workers are one consistent cut: if an epoch is complete on one worker, all workers have all its
  records.
- The state includes the held records and the tokens of their epochs. So probes after this operator tell which epochs
  are visible.
"""

from dataclasses import dataclass, field

from tidewheel.batches.batches import Batch
from tidewheel.operators.base.division import at_first
from tidewheel.operators.sinks.sink_counts import counts_of
from tidewheel.progress import Time
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.runtime.description.plan import Build
from tidewheel.runtime.messages.worker_report import NEXT_SNAPSHOT
from tidewheel.runtime.tokens.timestamp_token import TimestampToken
from tidewheel.runtime.worker.operator_context import OperatorContext, host_of, instance_of
from tidewheel.runtime.worker.ports import InputPort, OutputPort


@dataclass(slots=True)
class _Held:
    """The records of one epoch that a worker holds.

    Attributes:
        snapshot: the number of the first snapshot with the complete epoch; None while there is none.
    """

    batches: list[Batch] = field(default_factory=list)
    tokens: list[TimestampToken] = field(default_factory=list)
    snapshot: int | None = None

    def send(self, output: OutputPort) -> None:
        """Send the records, and discard the tokens."""
        for batch in self.batches:
            output.send(self.tokens[0], batch)
        for token in self.tokens:
            token.discard()

    def merge(self, other: "_Held") -> "_Held":
        """Add the records of another worker; the epoch counts as complete if it is complete on both."""
        known = self.snapshot is not None and other.snapshot is not None
        latest = max(self.snapshot or 0, other.snapshot or 0) if known else None
        return _Held(self.batches + other.batches, self.tokens + other.tokens, latest)


def build_covered(topic: str | None = None, *, sink: str = "") -> Build:
    """Return the build function of the operator, for a topic or for a sink, given by the key of its counts.

    In a job without snapshots, it raises DeliveryError for a topic; a sink receives an epoch when it is complete.
    """
    return lambda context: _Share(topic, sink, context).schedule


class _Share:
    """The operator on one worker."""

    def __init__(self, topic: str | None, sink: str, context: OperatorContext) -> None:
        self._saving, self._number = host_of(context).saving, instance_of(context).number
        if topic is not None and not self._saving.are_taken:
            raise DeliveryError(
                f"topic {topic!r}: visible='snapshot' shows an epoch once a snapshot has it, and this dataflow takes "
                "none. Call tw.run(..., snapshots=...), or publish without visible='snapshot'",
                topic=topic,
            )
        self._epochs: dict[Time, _Held] = at_first(_Held.merge).of_each().state(context, "epochs", dict)
        if sink:
            counts_of(context, sink).waiting.append(self._epochs)
        self._notificator = context.notificator()
        instance_of(context).waits_for = NEXT_SNAPSHOT

    def schedule(self, input: InputPort, output: OutputPort) -> None:
        epochs, saving = self._epochs, self._saving
        for lent, batch in input:
            if lent.time not in epochs:
                epochs[lent.time] = _Held()
                self._notificator.notify_at(lent)
            epochs[lent.time].batches.append(batch)
        for token in self._notificator.ready(input, sequential=False):
            if token.time in epochs:
                epochs[token.time].tokens.append(token.clone())
                epochs[token.time].snapshot = saving.number
        complete = {time: held.snapshot for time, held in epochs.items() if held.snapshot is not None}
        covered = [time for time, at in complete.items() if at < saving.saved or not saving.are_taken]
        for time in covered:
            del complete[time]
            epochs.pop(time).send(output)
        saving.wait(self._number, max(complete.values(), default=-1), has_ended=not len(input.frontier))
