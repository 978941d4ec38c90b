"""The captured batches of a job, while it runs and after it."""

from contextlib import suppress
from typing import TYPE_CHECKING

from tidewheel.progress import TidewheelError
from tidewheel.runtime.engines.captured import CapturedBatches
from tidewheel.runtime.errors import JobError

if TYPE_CHECKING:
    from tidewheel.runtime.engines.job import Job


class Captures:
    """The captured batches of a job. When a job is complete, its batches move here before the workers end."""

    def __init__(self, job: "Job") -> None:
        self._job = job
        self._has_waited = False
        self._complete: dict[str, CapturedBatches] = {}

    def note_wait(self) -> None:
        self._has_waited = True

    def read(self, name: str) -> CapturedBatches:
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
        """Fetch everything that the job has captured, before the job ends."""
        for name in self._job.plan.captures:
            with suppress(TidewheelError):  # records that cannot be pickled, for example, cannot be read later
                if name not in self._complete:
                    self._complete[name] = self._job._fetch_captured(name)
