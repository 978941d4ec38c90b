"""One output of an operator on one worker, as the worker and its channels have it."""

from typing import NoReturn

from tidewheel.progress import Time, TimeDomain
from tidewheel.runtime.errors import TokenError
from tidewheel.runtime.substreams.labels import Label, Labels
from tidewheel.runtime.tokens.timestamp_token import LentToken, TimestampToken, TokenLender
from tidewheel.runtime.tokens.token_ledger import TokenLedger
from tidewheel.runtime.worker.channel import Channel
from tidewheel.runtime.worker.port_host import PortHost, PortOwner
from tidewheel.transport.batches import Batch, check_batch, length

TOKENS = (TimestampToken, LentToken)
"""What operators send with; `isinstance` would make a union of the two for each message."""


class RunningOutput:
    """An output that operators send on through an `OutputPort`, and for which tokens are made."""

    __slots__ = ("_channels", "_core", "_instance", "domain", "location", "port", "records", "sent")

    def __init__(self, core: PortHost, instance: PortOwner, port: int, location: int, domain: TimeDomain) -> None:
        self._core = core
        self._instance = instance
        self._channels: list[Channel] = []
        self.port = port
        self.location = location
        self.domain = domain
        self.sent = 0
        self.records = 0

    @property
    def operator(self) -> str:
        """The name of the operator."""
        return self._instance.name

    @property
    def ledger(self) -> TokenLedger:
        """Where tokens for this output are recorded; it belongs to one worker."""
        return self._core.ledger

    def initial_token(self) -> TimestampToken:
        """Make the token with which the operator begins, and count it as held."""
        minimum = self.domain.minimum()
        self.ledger.held.update((self.location, minimum), 1)
        return TimestampToken(self.ledger, self.domain, self.location, minimum, self.operator, self)

    def connect(self, channel: Channel) -> None:
        """Add an edge that leads from here."""
        self._channels.append(channel)

    def send(self, token: TimestampToken | LentToken, batch: Batch) -> None:
        """See `OutputPort.send`."""
        if not isinstance(token, TOKENS):
            self._refuse_token(token)
        time = token.time_on(self)
        if not self._instance.is_scheduled:
            self._refuse()
        if type(batch) is not list:
            check_batch(batch)
        self._push(time, batch)

    def send_labelled(self, token: TimestampToken | LentToken, batch: Batch, label: Labels | None) -> None:
        """Send as `send` does, as records of other substreams than the token's, or of none."""
        assert label is None, "nothing in this dataflow declares substreams"
        self.send(token, batch)

    def _refuse_token(self, token: object) -> NoReturn:
        raise TokenError(
            f"operator {self.operator!r} sends with a token, as received with a message or retained, not {token!r}"
        )

    def _refuse(self) -> None:
        raise TokenError(
            f"operator {self.operator!r} sent on output {self.port} outside its schedule function: keep the "
            "records and the token, and send when the operator is scheduled next"
        )

    def _push(self, time: Time, batch: Batch) -> None:
        count = length(batch)
        if not count:
            return
        self.sent += 1
        self.records += count
        for channel in self._channels:
            channel.push(self._core, time, batch, count)

    @property
    def schedule(self) -> int:
        """The number of the operator's current call, -1 between two."""
        return self._instance.call

    def new_token(self, time: Time, lender: TokenLender, label: Label | None) -> TimestampToken:
        """Make a token from one that ``lender`` has lent for ``time``, and count it."""
        self.ledger.record(((self.location, time), 1), label=label)
        return TimestampToken(self.ledger, self.domain, self.location, time, self.operator, lender, label)
