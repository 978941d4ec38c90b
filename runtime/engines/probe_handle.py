"""The driver's handle of a probe: it shows the progress of a dataflow."""

from collections.abc import Callable, Iterator
from functools import partial

from tidewheel.progress import Antichain, Time, TimeDomain
from tidewheel.runtime.errors import JobError


class ProbeHandle:
    """The driver's view of the frontier at one stream."""

    def __init__(
        self,
        name: str,
        domain: TimeDomain,
        frontier: Callable[[], Antichain],
        wait: Callable[[Callable[[], bool], str, float | None, str | None], None],
        job: object = None,
    ) -> None:
        self.name = name
        self._job = job
        self._domain = domain
        self._frontier = frontier
        self._wait = wait

    @property
    def frontier(self) -> Antichain:
        """The lower bound on the times that can still occur; empty once the stream has ended."""
        return self._frontier()

    def has_reached(self, time: Time) -> bool:
        """Tell whether every time before ``time`` is complete."""
        return not self.frontier.less_than(self._checked(time))

    def is_complete(self, time: Time) -> bool:
        """Tell whether ``time`` itself is complete."""
        return not self.frontier.less_equal(self._checked(time))

    def wait_until(self, time: Time, timeout: float | None = None) -> None:
        """Wait until every time before ``time`` is complete: inputs have passed it, and all of it was worked off.

        Args:
            time: a time of the probed stream.
            timeout: in seconds; None waits as long as the job lives.

        Raises:
            TimeoutError: the time was not reached in ``timeout`` seconds.
            JobError: the job failed, was stopped, or (on the local engine) has nothing left to do; or ``time`` is no
                time of the stream.
        """
        self._checked(time)
        self._wait(lambda: self.has_reached(time), f"probe {self.name!r} to reach {time!r}", timeout, self.name)

    def advances(self, timeout: float | None = None) -> Iterator[Antichain]:
        """Yield the frontier as it is, and again whenever it has moved, until it is empty: the stream has ended.

        It may pass over several times at once.

        Args:
            timeout: in seconds, for each move; None waits as long as the job lives.

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
            self._wait(partial(self._has_left, frontier), f"probe {self.name!r} to move", timeout, self.name)
            frontier = self.frontier
            yield frontier

    def _has_left(self, frontier: Antichain) -> bool:
        return self.frontier != frontier

    def belongs_to(self, job: object) -> bool:
        """Tell whether this is a probe of ``job``."""
        return self._job is job

    def _checked(self, time: Time) -> Time:
        if not self._domain.contains(time):
            raise JobError(
                f"probe {self.name!r} cannot tell about {time!r}: that is no time of its stream, where times are "
                f"such as {self._domain.minimum()!r}"
            )
        return time

    def __repr__(self) -> str:
        return f"ProbeHandle({self.name!r})"
