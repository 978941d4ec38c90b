"""The thread in the driver of a Ray job that takes its snapshots."""

import logging
import threading

from tidewheel.host.log_lines import about
from tidewheel.runtime.engines.driver_feed import DriverFeed
from tidewheel.runtime.engines.job import Job
from tidewheel.runtime.errors import JobError, JobRolledBack, SnapshotError
from tidewheel.runtime.messages.written_part import WrittenPart
from tidewheel.runtime.snapshots.job_snapshots import JobSnapshots

_LOGGER = logging.getLogger(__name__)
_LOOK_S = 0.5
_END_TIMEOUT_S = 10.0


class SnapshotTaker:
    """Begins a snapshot when one is due or requested, and commits it when all workers have written their parts."""

    def __init__(self, job: Job, feed: DriverFeed, snapshots: JobSnapshots) -> None:
        self._job = job
        self._feed = feed
        self._snapshots = snapshots
        self._look_s = min(_LOOK_S, snapshots.every_s)
        self._changed = threading.Condition()
        self._is_asked = self._is_complete = self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"tidewheel-snapshots-{job.name}", daemon=True)
        self._thread.start()

    def take(self, timeout_s: float) -> int:
        with self._changed:
            self._is_asked = True
            number = self._snapshots.number + 1  # the next one begins in `_next`, which no thread enters now
            self._changed.notify_all()
            is_done = self._changed.wait_for(lambda: self._is_closed or self._snapshots.outcome_of(number), timeout_s)
        if not is_done:
            raise TimeoutError(f"snapshot {number} was not complete within {timeout_s:g} s")
        if not self._snapshots.outcome_of(number):
            self._job._life.check_alive()
            raise SnapshotError(
                f"snapshot {number} was not taken, as job {self._job.name!r} goes back to the one before: ask again"
            )
        return number

    def add(self, part: WrittenPart) -> None:
        if self._snapshots.add(part):
            with self._changed:
                self._is_complete = True
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(_END_TIMEOUT_S)

    def _run(self) -> None:
        while not self._is_closed:
            try:
                self._look()
            except (
                JobError,
                JobRolledBack,
            ):  # the job has ended or goes back; it closes this, and wakes waiting threads
                return
            except SnapshotError as error:
                self._job._fail(error)
            except Exception as error:
                _LOGGER.exception("the thread that takes snapshots has failed", extra=about(self._job.name))
                self._job._fail(JobError(f"job {self._job.name!r} can take no more snapshots: {error!r}"))

    def _look(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_complete or self._is_asked or self._is_closed, self._look_s)
            if self._is_closed:
                return
            is_complete, self._is_complete = self._is_complete, False
        try:
            if is_complete:
                self._snapshots.commit()
            self._snapshots.give_up_late()
        finally:
            with self._changed:
                self._changed.notify_all()
        if is_complete:
            self._feed.tell_saved(self._snapshots.committed)
        number = self._next()
        if number is not None:
            self._feed.begin_snapshot(number)

    def _next(self) -> int | None:
        with self._changed:
            snapshots = self._snapshots
            if snapshots.is_under_way or not self._job._life.has_started:
                return None
            is_awaited = snapshots.is_awaited(max(status.awaits for status in self._feed.link.statuses))
            if snapshots.has_ended or not (self._is_asked or snapshots.is_due or is_awaited):
                return None
            self._is_asked = False
            return snapshots.begin()
