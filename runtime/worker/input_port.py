"""The input of an operator, from which its schedule function receives."""

from collections.abc import Iterator
from typing import Any

from tidewheel.progress import Antichain
from tidewheel.runtime.tokens.timestamp_token import LentToken
from tidewheel.runtime.worker.running_input import RunningInput
from tidewheel.transport.batches import Batch


class InputPort:
    """One input of an operator on one worker: iterate over it to receive ``(token, batch)`` pairs.

    Receiving a message consumes it. Each message lends a token, which is valid until the operator returns.
    """

    __slots__ = ("_running",)

    def __init__(self, running: RunningInput) -> None:
        self._running = running

    def __iter__(self) -> Iterator[tuple[LentToken, Batch]]:
        return iter(self._running)

    @property
    def frontier(self) -> Antichain:
        """The lower bound on the times that can still arrive here, from any worker.

        Raises:
            TokenError: the operator said, by ``notify=False``, that it does not look at frontiers.
        """
        return self._running.frontier

    @property
    def ended(self) -> Iterator[Any]:
        """The keys of the substreams that have ended here since it was last looked at, once for each substream.

        The operator has received all records of them that came here. On any worker, no more come to this operator; a
        firm bound outside of loops ends a substream on each worker by itself. Where a key is used again, the operator
        receives its records after it has looked at the end of the earlier substream. With a firm bound, it receives
        nothing behind an end before it has looked at that.

        Raises:
            TokenError: the operator did not say, by ``bound="soft"`` or ``bound="firm"``, that it wants to know.
        """
        return self._running.ended


def running_input(port: InputPort) -> RunningInput:
    """Return the input behind a port, for operators of this package and tests."""
    return port._running
