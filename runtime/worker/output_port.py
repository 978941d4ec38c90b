"""What an operator's schedule function sends to."""

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

from tidewheel.progress import Time, TimeDomain
from tidewheel.progress.substream_tracker import Key
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.substreams.end_of_substream import EndOfSubstream
from tidewheel.runtime.substreams.labels import Label, Labels, labels_of
from tidewheel.runtime.substreams.markers import Markers
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken
from tidewheel.runtime.tokens.token_ledger import TokenLedger
from tidewheel.transport.batches import Batch, check_batch, length

if TYPE_CHECKING:
    from tidewheel.runtime.worker.channel import Channel
    from tidewheel.runtime.worker.input_port import InputPort
    from tidewheel.runtime.worker.operator_instance import OperatorInstance
    from tidewheel.runtime.worker.worker_core import WorkerCore

_MOST_GATHERED = 4096
"""How many records of small substreams go in one message."""


class OutputPort:
    """One output of an operator on one worker.

    Attributes:
        gathered: records of small substreams that leave in one message, as (time, declaration, keys, records).
        marks: keys whose markers leave before the next message.
        marked: where they go, if substreams are declared here: (number of the declaration, channels).
    """

    __slots__ = (
        "_channels",
        "_core",
        "_instance",
        "domain",
        "gathered",
        "location",
        "marked",
        "marks",
        "port",
        "records",
        "sent",
    )

    def __init__(
        self, core: "WorkerCore", instance: "OperatorInstance", port: int, location: int, domain: TimeDomain
    ) -> None:
        self._core = core
        self._instance = instance
        self._channels: list[Channel] = []
        self.gathered: tuple[Time, int, list[Key], list[Any]] | None = None
        self.marks: list[Key] = []
        self.marked: tuple[int, Sequence[Channel]] = (0, ())
        self.port = port
        self.location = location
        self.domain = domain
        self.sent = 0
        self.records = 0

    @property
    def operator(self) -> str:
        """The name of the operator."""
        return self._instance.name

    def belongs_to(self, instance: "OperatorInstance") -> bool:
        """Tell whether this is an output of ``instance``."""
        return self._instance is instance

    @property
    def ledger(self) -> TokenLedger:
        """Where tokens for this output are recorded; it belongs to one worker."""
        return self._core.ledger

    def initial_token(self) -> TimestampToken:
        """Make the token with which the operator begins, and count it as held."""
        minimum = self.domain.minimum()
        self.ledger.held.update((self.location, minimum), 1)
        return TimestampToken(self.ledger, self.domain, self.location, minimum, self.operator, self)

    def connect(self, channel: "Channel") -> None:
        """Add an edge that leads from here."""
        self._channels.append(channel)

    def send(self, token: TimestampToken | LentToken, batch: Batch) -> None:
        """Send ``batch`` at the token's time to everything connected; an empty batch is not sent.

        The batch must not be changed afterwards: receivers on the same worker get the same object.

        Raises:
            TokenError: the token does not allow it, or the operator is not being scheduled.
            TypeError: ``batch`` is not a list, Arrow table, record batch or NumPy array.
        """
        if not isinstance(token, TimestampToken | LentToken):
            raise TokenError(
                f"operator {self.operator!r} sends with a token, as received with a message or retained, not {token!r}"
            )
        time, label = token.time_on(self), token.label
        if not self._instance.is_scheduled:
            self._refuse()
        if label is not None and type(batch) is list and type(label) is tuple:
            self._gather(time, batch, label)
            return
        if self.gathered is not None:
            self.flush()
        if type(batch) is not list:
            check_batch(batch)
        self._push(time, batch, label)

    def send_labelled(self, token: TimestampToken | LentToken, batch: Batch, label: Labels | None) -> None:
        """Send as `send` does, but as of other substreams than the token's: where these are declared, kept, or left."""
        time = token.time_on(self)
        if not self._instance.is_scheduled:
            self._refuse()
        self.flush()
        self._push(time, batch, label)

    def send_marks(
        self, token: TimestampToken | LentToken, marks: list[EndOfSubstream], dividers: Container[int]
    ) -> bool:
        """Send marks to those operators right behind this output that are among ``dividers``; return if there are any.

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
                channel.push(self._core, time, marks, len(marks), None)
        return bool(channels)

    def _refuse(self) -> None:
        raise TokenError(
            f"operator {self.operator!r} sent on output {self.port} outside its schedule function: keep the "
            "records and the token, and send when the operator is scheduled next"
        )

    def _gather(self, time: Time, batch: list[Any], label: Label) -> None:
        """Keep records of a substream for a message with others', which leaves when the operator has returned."""
        declaration, key = label
        gathered = self.gathered
        if gathered is None or gathered[0] != time or gathered[1] != declaration:
            self.flush()
            gathered = self.gathered = (time, declaration, [], [])
        gathered[2].extend([key] * len(batch))
        gathered[3].extend(batch)
        if len(gathered[3]) >= _MOST_GATHERED:
            self.flush()

    def flush(self) -> None:
        """Send what was gathered."""
        if self.gathered is not None:
            time, declaration, keys, batch = self.gathered
            self.gathered = None
            if keys:
                self._push(time, batch, labels_of(declaration, keys))

    def _push(self, time: Time, batch: Batch, label: Labels | None) -> None:
        count = length(batch)
        if not count:
            return
        if self.marks:
            self.flush_marks()
        self.sent += 1
        self.records += count
        for channel in self._channels:
            channel.push(self._core, time, batch, count, label)

    def flush_marks(self, *, is_last: bool = False) -> None:
        """Send the markers of ``marks``, and that no other follow."""
        declaration, channels = self.marked
        marks, self.marks = self.marks, []
        for channel in channels:
            channel.push_markers(self._core, Markers(declaration, marks, is_last))

    @property
    def schedule(self) -> int:
        """The number of the operator's current call, -1 between two."""
        return self._instance.call

    def new_token(self, time: Time, lender: "InputPort", label: Label | None) -> TimestampToken:
        """Make a token of one that ``lender`` has lent for ``time``; it is counted from now on."""
        return self._core.new_token(self._instance, self, time, lender, label)
