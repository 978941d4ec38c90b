"""The state of a partition that a worker reads, part of snapshots."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidewheel.operators.sources.contract import Fetched
from tidewheel.operators.sources.pace import Pace
from tidewheel.operators.sources.partition_epochs import PartitionEpoch
from tidewheel.progress import Time
from tidewheel.runtime.tokens.token_set import TokenSet
from tidewheel.runtime.worker.ports import OutputPort


@dataclass(slots=True)
class DealtPartition:
    """A partition that a worker reads.

    Attributes:
        number: its number, which determines its worker.
        tokens: the tokens for times at which it can still send; empty before it is opened, and once it has ended.
        is_opened: whether it was opened in this run or an earlier one.
        position: the position after its last sent batch; None before the first one.
        begun: the epochs that it has begun, if a probe limits the source.
    """

    number: int
    tokens: TokenSet = field(default_factory=TokenSet)
    position: Any = None
    is_opened: bool = False
    place: PartitionEpoch = field(default_factory=PartitionEpoch)
    begun: list[Time] = field(default_factory=list)

    @property
    def epoch(self) -> Time:
        """The epoch of a partition with one token."""
        (epoch,) = self.tokens.times
        return epoch

    def move(self, times: Sequence[Time]) -> None:
        """Move the tokens to these times, before which nothing will be sent."""
        if tuple(times) == self.tokens.times:
            return
        if len(times) == len(self.tokens) == 1:
            (token,) = self.tokens
            token.downgrade(times[0])
        else:
            self.tokens.downgrade(times)
        self.place.moved()

    def send_said(self, fetched: Fetched[Any], output: OutputPort, pace: Pace | None) -> bool:
        """Send a batch at its own epoch; return False if the probe does not let the partition begin the epoch yet.

        The tokens move first, since the probe may wait for earlier epochs.
        """
        epoch = fetched.epoch
        self.move((epoch,) if fetched.frontier is None else fetched.frontier)
        if pace is not None and not pace.lets_go_to(epoch, self.begun):
            return False
        self.send(epoch, fetched, output)
        self.position = fetched.position
        return True

    def send(self, epoch: Time, fetched: Fetched[Any], output: OutputPort) -> None:
        """Send a batch, and letters for refused items, at an epoch that the tokens allow."""
        for token in self.tokens:
            if token.time == epoch:
                output.send(token, fetched.batch)
                output.send(token, list(fetched.refused))
                return
        with self.tokens.delayed(epoch) as token:
            output.send(token, fetched.batch)
            output.send(token, list(fetched.refused))
