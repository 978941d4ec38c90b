"""The output of an operator in a dataflow that declares substreams."""

from collections.abc import Container
from typing import Any

from tidewheel.progress import Time
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.substreams.end_of_substream import EndOfSubstream
from tidewheel.runtime.substreams.labels import Label, Labels, labels_of
from tidewheel.runtime.substreams.substream_channel import SubstreamChannel
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.worker.running_output import TOKENS, RunningOutput
from tidewheel.transport.batches import Batch, check_batch, length

_MOST_GATHERED = 4096
"""The number of records of small substreams that leave in one message."""


class SubstreamOutput(RunningOutput):
    """An output that knows to which substreams its records belong.

    It gathers the records of small substreams, and sends them in one message when the operator has returned.
    """

    __slots__ = ("_gathered",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._gathered: tuple[Time, int, list[Key], list[Any]] | None = None
        """(time, declaration, keys, records)"""

    def send(self, token: TimestampToken | LentToken, batch: Batch) -> None:
        """Send ``batch`` at the token's time, as records of the token's substream; see `OutputPort.send`."""
        if not isinstance(token, TOKENS):
            self._refuse_token(token)
        time, label = token.time_on(self), token.label
        if not self._instance.is_scheduled:
            self._refuse()
        if type(label) is tuple and type(batch) is list:
            self._gather(time, batch, label)
            return
        self.flush()
        if type(batch) is not list:
            check_batch(batch)
        self._push_labelled(time, batch, label)

    def send_labelled(self, token: TimestampToken | LentToken, batch: Batch, label: Labels | None) -> None:
        """Send as `send` does, as records of other substreams than the token's, or of none."""
        time = token.time_on(self)
        if not self._instance.is_scheduled:
            self._refuse()
        self.flush()
        self._push_labelled(time, batch, label)

    def send_marks(
        self, token: TimestampToken | LentToken, marks: list[EndOfSubstream], dividers: Container[int]
    ) -> bool:
        """Send marks to those operators right behind this output that are among ``dividers``; tell if there are any.

        Raises:
            TokenError: as `send`.
        """
        channels = [channel for channel in self._channels if channel.operator in dividers]
        if channels:
            time = token.time_on(self)
            if not self._instance.is_scheduled:
                self._refuse()
            self.flush()
            for channel in channels:
                channel.push(self._core, time, marks, len(marks))
        return bool(channels)

    def _gather(self, time: Time, batch: list[Any], label: Label) -> None:
        declaration, key = label
        gathered = self._gathered
        if gathered is None or gathered[0] != time or gathered[1] != declaration:
            self.flush()
            gathered = self._gathered = (time, declaration, [], [])
        gathered[2].extend([key] * len(batch))
        gathered[3].extend(batch)
        if len(gathered[3]) >= _MOST_GATHERED:
            self.flush()

    def flush(self) -> None:
        """Send the gathered records."""
        if self._gathered is not None:
            time, declaration, keys, batch = self._gathered
            self._gathered = None
            if keys:
                self._push_labelled(time, batch, labels_of(declaration, keys))

    def _push_labelled(self, time: Time, batch: Batch, label: Labels | None) -> None:
        if label is None:
            self._push(time, batch)
            return
        count = length(batch)
        if not count:
            return
        self.sent += 1
        self.records += count
        for channel in self._channels:
            assert isinstance(channel, SubstreamChannel), "all channels of this dataflow are"
            channel.push_labelled(self._core, time, batch, count, label)
