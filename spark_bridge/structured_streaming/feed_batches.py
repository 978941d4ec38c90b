"""Micro-batches of a streaming query as epochs of an input: each once, even when Spark replays it.

Spark delivers a micro-batch at least once: what it had not committed when it was stopped comes again, under the same id
and, if the query is deterministic, with the same rows. So the id is the epoch, and the time of the input's handle says
which ids were delivered before.

===============  =======================================================================
id of the batch  what becomes of it
===============  =======================================================================
below the time   dropped: it was delivered before
the time         its rows are sent, and the input goes past it
above the time   the same, after the input has passed the ids that Spark has skipped
===============  =======================================================================

All rows are there before the first is sent, so a query that fails midway leaves no part of a micro-batch behind. How
they are cut and which worker gets which slice depends on nothing but the rows and the id: a program that is started
again deals a micro-batch out as the one before did, which is how a log knows what it has already.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_SLICE = 65_536
"""How many rows of a micro-batch go to one worker before the next has its turn."""


class TakesEpochs(Protocol):
    """What is needed of an `InputHandle`."""

    @property
    def time(self) -> int:
        """The time at which `send` sends."""

    @property
    def workers(self) -> int:
        """How many workers there are."""

    def send(self, batch: "pa.Table", *, worker: int) -> None:
        """Send a batch at the current time; wait while too much is in flight."""

    def advance_to(self, time: int) -> None:
        """Promise to send nothing before ``time``."""


def deliver(batch_id: int, rows: "Callable[[], pa.Table]", input: TakesEpochs) -> bool:
    """Send one micro-batch as the epoch of its id, unless that was done before; tell whether it was sent.

    Args:
        batch_id: its id.
        rows: computes it; whatever that raises, nothing was sent.
        input: where to, at the time behind the last micro-batch that was sent. Whatever it raises, the job is over.
    """
    if batch_id < input.time:
        return False
    table = rows()
    input.advance_to(batch_id)
    for number, start in enumerate(range(0, table.num_rows, ROWS_PER_SLICE)):
        input.send(table.slice(start, ROWS_PER_SLICE), worker=(batch_id + number) % input.workers)
    input.advance_to(batch_id + 1)
    return True
