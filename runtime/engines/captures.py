"""What the captures of a job have kept, as long as it runs and once it is complete."""

from contextlib import suppress
from typing import TYPE_CHECKING

from tidewheel.progress import TidewheelError
from tidewheel.runtime.engines.captured import CapturedBatches
from tidewheel.runtime.errors import JobError

if TYPE_CHECKING:
    from tidewheel.runtime.engines.job import Job


class Captures:
    """What the captures of a job have kept. Of a complete job it stays here when the workers are gone.

    Args:
        job: the job.
    """

    def __init__(self, job: "Job") -> None:
        self._job = job
        self._has_waited = False
        self._complete: dict[str, CapturedBatches] = {}

    def note_wait(self) -> None:
        """Note that the program has waited for some of the work, or has looked at a probe."""
        self._has_waited = True

    def read(self, name: str) -> CapturedBatches:
        """Return what one has kept so far; for errors see `Job.captured`."""
        if name in self._complete:
            return self._complete[name]
        job = self._job
        job._life.check_alive()
        if job.is_complete:
            self._complete[name] = job._fetch_captured(name)
            return self._complete[name]
        if not self._has_waited:
            raise JobError(
                f"job {job.name!r} is not complete, and nothing was waited for, so capture {name!r} may have nothing "
                f"yet: call job.wait() first, or wait for a probe, job.probe(name).wait_until(time) "
                f"({job._feed.inputs.describe()})"
            )
        return job._fetch_captured(name)

    def keep(self) -> None:
        """Fetch what the job, which is complete and about to end, has captured."""
        for name in self._job.plan.captures:
            with suppress(TidewheelError):  # such as for records that cannot be pickled: then it cannot be read later
                if name not in self._complete:
                    self._complete[name] = self._job._fetch_captured(name)
