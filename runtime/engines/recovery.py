"""The recovery of a Ray job after a worker's death."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidewheel.host.log_lines import about
from tidewheel.host.retry import Retry
from tidewheel.progress import TidewheelError
from tidewheel.runtime.errors import AttachmentGone, CannotGoBack, FeederGone, JobError
from tidewheel.runtime.snapshots.job_snapshots import JobSnapshots

if TYPE_CHECKING:
    from tidewheel.runtime.engines.ray_job import RayJob

_LOGGER = logging.getLogger(__name__)
_AGAIN = Retry(first_pause_s=1.0, longest_pause_s=30.0)
"""The pauses before the second and later attempts."""
_CALM_S = 600.0
_END_TIMEOUT_S = 30.0


class Recovery:
    """Replaces dead workers of a job, and returns all workers to the last snapshot.

    Two other deaths cause the same return. If a feeder in another process dies, some of its records may be missing;
    after the return, the driver has the feeder's handles. If a publisher dies, Ray restarts it.

    The first attempt begins at once. Each pause before a further attempt is twice as long as the last. After ten
    minutes without failure the count starts again.
    """

    def __init__(self, job: "RayJob", snapshots: JobSnapshots) -> None:
        self._job = job
        self._snapshots = snapshots
        self._lock = threading.Lock()
        self._attempts = 0
        self._failed_at = 0.0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_under_way = False
        self._meanwhile: TidewheelError | None = None

    @property
    def may_begin(self) -> bool:
        return self._snapshots.restarts > 0

    def takes_on(self, error: TidewheelError) -> bool:
        """Begin to recover from an error, on a thread; return False if the job must fail.

        The job must fail if an operator has failed, after too many attempts, or while it has added dataflows, which
        have no snapshots.
        """
        if not _is_death(error):
            return False
        if added := self._job.dataflows:
            _LOGGER.warning(
                "job %r does not go back to a snapshot, as it has added dataflows, which keep none: %s. drop() those "
                "that have ended, and run what is to survive as a job of its own",
                self._job.name,
                ", ".join(map(repr, added)),
                extra=about(self._job.name),
            )
            return False
        with self._lock:
            if self._closed.is_set():
                return False
            if self._is_under_way:
                self._meanwhile = error
                self._job._give_up_going_back()
                return True
            if time.monotonic() - self._failed_at > _CALM_S:
                self._attempts = 0
            if self._attempts >= self._snapshots.restarts:
                return False
            self._is_under_way = True
            self._thread = threading.Thread(
                target=self._run, args=[error], name=f"tidewheel-recovery-{self._job.name}", daemon=True
            )
            self._thread.start()
            return True

    def _have_come_up(self) -> None:
        with self._lock:
            self._meanwhile = None

    def bring_up(self, deploy: Callable[[], None]) -> None:
        """Deploy the job on this thread. If a worker dies meanwhile, recover as often as is allowed.

        Raises:
            TidewheelError: the deployment failed, or the job has failed during it.
        """
        self._is_under_way = True
        cause = self._outcome(deploy)
        if cause is not None and _is_death(cause):
            cause = self._go_back_again_and_again(cause)
        if cause is not None:
            raise cause
        self._job._life.check_alive()

    def close(self) -> None:
        with self._lock:  # `takes_on` may be about to start the thread, which cannot be joined before
            self._closed.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_TIMEOUT_S)

    def _run(self, error: TidewheelError) -> None:
        cause = self._go_back_again_and_again(error)
        if cause is not None:
            self._job._fail_for_good(cause)

    def _go_back_again_and_again(self, error: TidewheelError) -> TidewheelError | None:
        cause: TidewheelError | None = error
        while cause is not None and not self._closed.is_set():
            if self._attempts >= self._snapshots.restarts or isinstance(cause, CannotGoBack):
                return cause
            self._attempts += 1
            self._failed_at = time.monotonic()
            _LOGGER.warning(
                "job %r goes back to %s, attempt %d of %d: %s",
                self._job.name,
                self._snapshots.describe(),
                self._attempts,
                self._snapshots.restarts,
                cause,
                extra=about(self._job.name),
            )
            pause_s = _AGAIN.pause_s(self._attempts - 1) if self._attempts > 1 else 0.0
            if self._closed.wait(pause_s):
                return None
            cause = self._outcome(self._go_back)
        if cause is None:
            where = self._snapshots.describe()
            _LOGGER.info("job %r goes on from %s", self._job.name, where, extra=about(self._job.name))
        return None

    def _go_back(self) -> None:
        try:
            self._job._go_back(self._snapshots, self._have_come_up)
        except TidewheelError:
            raise
        except (Exception, SystemExit) as error:  # Ray raises SystemExit where it is shut down
            raise JobError(f"job {self._job.name!r} could not go back to its last snapshot: {error!r}") from error

    def _outcome(self, attempt: Callable[[], None]) -> TidewheelError | None:
        failure: TidewheelError | None = None
        try:
            attempt()
        except TidewheelError as error:
            failure = error
        with self._lock:
            failure, self._meanwhile = self._meanwhile or failure, None
            self._is_under_way = failure is not None
        return failure


def _is_death(error: TidewheelError) -> bool:
    is_death = isinstance(error, FeederGone | AttachmentGone)
    is_death = is_death or (isinstance(error, JobError) and error.worker is not None)
    return is_death and getattr(error, "operator", None) is None
