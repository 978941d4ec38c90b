"""A source that says when some time has passed."""

import itertools
import time
from collections.abc import Iterator

from tidewheel.operators.sources.record_source import check_positive
from tidewheel.progress import GraphError
from tidewheel.runtime.description.partitioned_source import Pause


class TickSource:
    """A source of ticks: number ``n``, at epoch ``n``, is sent by worker 0 once ``n * every_s`` seconds have passed.

    The first comes at once. Each epoch is complete when its tick was sent. No tick is left out: where the dataflow was
    held up, those that are late follow one another at once. No thread waits meanwhile.

    Args:
        every_s: in seconds.
        count: how many there are; None for no end.

    Raises:
        GraphError: a number is not positive.

    >>> import tidewheel as tw
    >>> flow = tw.Dataflow("clock")
    >>> _ = flow.source("ticks", TickSource(0.01, count=3)).capture("ticks")
    >>> with tw.run(flow, engine="local") as job:
    ...     job.wait()
    ...     [(captured.time, captured.batch) for captured in job.captured("ticks")]
    [(0, [0]), (1, [1]), (2, [2])]
    """

    def __init__(self, every_s: float, *, count: int | None = None) -> None:
        if not isinstance(every_s, int | float) or not every_s > 0:
            raise GraphError(f"TickSource: every_s is a number of seconds above 0, not {every_s!r}")
        if count is not None:
            check_positive("TickSource", "count", count)
        self._every_s = every_s
        self._count = count

    def partitions(self, worker: int, workers: int) -> list[Iterator[tuple[int, list[int]] | Pause]]:
        """Return the ticks on worker 0, nothing on the others."""
        return [self._ticks()] if worker == 0 else []

    def _ticks(self) -> Iterator[tuple[int, list[int]] | Pause]:
        began_s = time.monotonic()
        for number in itertools.count() if self._count is None else range(self._count):
            while (left_s := began_s + number * self._every_s - time.monotonic()) > 0:
                yield Pause(left_s)
            yield number, [number]
            yield number + 1, []
