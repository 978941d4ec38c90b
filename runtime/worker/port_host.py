"""The worker and the operator as ports and channels see them: no more of either than they use."""

from collections.abc import Sequence
from typing import Protocol

from tidewheel.progress import Antichain, Time
from tidewheel.runtime.substreams.books import SubstreamBooks
from tidewheel.runtime.tokens.timestamp_token import TokenOutput
from tidewheel.runtime.tokens.token_ledger import TokenLedger
from tidewheel.runtime.worker.flow_control import FlowControl
from tidewheel.runtime.worker.message import Message
from tidewheel.runtime.worker.outbox import Outbox


class PortHost(Protocol):
    """The worker of a port or channel.

    Attributes:
        worker: its number.
        workers: the number of workers.
        flow: counts the bytes in flight.
        ledger: counts tokens.
        outbox: has what leaves for other workers.
        books: counts substreams.
    """

    worker: int
    workers: int
    flow: FlowControl
    ledger: TokenLedger
    outbox: Outbox

    @property
    def books(self) -> SubstreamBooks:
        """The worker's books of substreams."""

    def activate(self, operator: int) -> None:
        """Schedule an operator."""

    def produce(self, location: int, time: Time) -> None:
        """Count a message on its way to an input port."""

    def consume(self, location: int, time: Time) -> None:
        """Count a message as received at an input port."""

    def frontier(self, location: int) -> Antichain:
        """Return the frontier at a location where the worker keeps one."""


class PortOwner(Protocol):
    """The operator of a port, on one worker.

    Attributes:
        name: its name.
        notify: whether it looks at frontiers.
        time: the time of the message that it received last; errors name it.
        schedules: how often it was scheduled.
        is_scheduled: whether a call is under way.
    """

    name: str
    notify: bool
    time: Time | None
    schedules: int
    is_scheduled: bool

    @property
    def outputs(self) -> Sequence[TokenOutput]:
        """Its outputs."""

    @property
    def call(self) -> int:
        """The number of the call that is under way, -1 between two."""


class Receiving(Protocol):
    """An input port as a channel sees it."""

    location: int

    def put(self, message: Message, /) -> None:
        """Receive a message."""
