"""The driver's handle of a probe."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from tidewheel.progress import Antichain, Time
from tidewheel.runtime.errors import JobError

if TYPE_CHECKING:
    from tidewheel.runtime.engines.job import Job


class ProbeHandle:
    """The driver's view of the frontier at one stream.

    Attributes:
        name: the name of the probe.
        job: the job of the probe.
    """

    def __init__(self, job: "Job", name: str) -> None:
        self.name = name
        self.job = job
        self._domain = job.probe_nestings[name].domain

    @property
    def frontier(self) -> Antichain:
        """The lower bound on times that can still occur; empty once the stream has ended."""
        self.job._life.check_alive()
        self.job._captures.note_wait()
        return self.job._feed.frontier(self.name, self._domain)

    def has_reached(self, time: Time) -> bool:
        """Tell whether every time before ``time`` is complete."""
        return not self.frontier.less_than(self._checked(time))

    def has_completed(self, time: Time) -> bool:
        """Tell whether ``time`` is complete."""
        return not self.frontier.less_equal(self._checked(time))

    def wait_until(self, time: Time, timeout_s: float | None = None) -> None:
        """Wait until every time before ``time`` is complete: passed by all inputs, with all records processed.

        Args:
            time: a time of the probed stream.
            timeout_s: in seconds; None waits as long as the job lives.

        Raises:
            TimeoutError: the time was not reached in ``timeout_s`` seconds.
            JobError: the job has failed, was stopped, or (on the local engine) has no work left; or ``time`` is not a
                time of the stream.
        """
        self._checked(time)
        self.job._wait_for(
            lambda: self.has_reached(time), f"probe {self.name!r} to reach {time!r}", timeout_s, self.name
        )

    def advances(self, timeout_s: float | None = None) -> Iterator[Antichain]:
        """Yield the frontier now and after each move, until it is empty because the stream has ended.

        One move may skip times.

        Args:
            timeout_s: in seconds, for each move; None waits as long as the job lives.

        Raises:
            TimeoutError, JobError: as `wait_until` does.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("epochs")
        >>> _ = flow.source("words", tw.IterableSource([[(0, ["tide"]), (2, ["wheel"])]])).probe("read")
        >>> with tw.run(flow, engine="local") as job:
        ...     for frontier in job.probe("read").advances():
        ...         print(sorted(frontier))
        [0]
        [2]
        []
        """
        frontier = self.frontier
        yield frontier
        while len(frontier):
            self.job._wait_for(partial(self._has_left, frontier), f"probe {self.name!r} to move", timeout_s, self.name)
            frontier = self.frontier
            yield frontier

    def _has_left(self, frontier: Antichain) -> bool:
        return self.frontier != frontier

    def _checked(self, time: Time) -> Time:
        if not self._domain.contains(time):
            raise JobError(
                f"probe {self.name!r} cannot tell about {time!r}: that is no time of its stream, where times are "
                f"{self._domain.describe()}"
            )
        return time

    def __repr__(self) -> str:
        return f"ProbeHandle({self.name!r})"
