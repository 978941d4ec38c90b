"""The thread by which a job describes itself once a second, while there are listeners.

Errors of the thread never fail the job. They are logged, and the next document follows a second later.
"""

import logging
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tidewheel.display.merge_patch import Document, patch
from tidewheel.host.attachment import AttachmentHost, Telemetry
from tidewheel.host.ray_internals import dashboard_url
from tidewheel.host.recent_lines import RecentLines
from tidewheel.progress import TidewheelError
from tidewheel.runtime.description.dataflow_description import DataflowDescription
from tidewheel.runtime.description.outline import Outline
from tidewheel.runtime.errors import WorkerGone
from tidewheel.runtime.messages.worker_report import BusyWorker
from tidewheel.runtime.telemetry.observed_job import ObservedJob

if TYPE_CHECKING:  # programs without listeners do not load these
    from tidewheel.runtime.telemetry.collector import Collector
    from tidewheel.runtime.telemetry.observation import JobFacts, Observation

_LOGGER = logging.getLogger(__name__)
PERIOD_S: Final = 1.0
_SOONEST_S: Final = 0.2
_ANSWER_S: Final = 0.5
_END_S: Final = 2.0
_PAUSE_PER_WORK: Final = 50.0
"""On the local engine, a pause is this many times as long as the work before it."""
_REST_PER_ASKING: Final = 20.0
"""Publishers are asked again after a pause this many times as long as their last answer took."""


class NoTelemetry:
    """The telemetry of a job that does not describe itself: every call does nothing."""

    def open(self) -> None:
        """Begin soon to publish for other processes of the cluster too, at the request of one of them."""

    def tell(self) -> None: ...

    def fail(self, error: TidewheelError) -> None:
        """Describe the job at once, as it fails or returns to a snapshot; thread-safe."""

    def finish(self, state: str, *, waits: bool) -> None:
        """Describe the job for the last time, and end the topic; idempotent.

        With ``waits``, wait at most two seconds for that.
        """


class JobTelemetry(NoTelemetry):
    """Publishes the documents of one job; it does not keep the job alive."""

    def __init__(self, job: ObservedJob, outline: Outline, topic: Telemetry) -> None:
        self._job = weakref.ref(job)
        self._outline = outline
        self._since = time.time()  # without the time that Ray took to start
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._is_whole_due = self._is_over = self._has_warned = False
        self._end_state = ""
        self._collector: Collector | None = None
        self._told: Document = {}
        self._topics_after = self._pause_s = 0.0
        self._dead: dict[int, int] = {}  # by worker, the number of the job's returns to a snapshot before it died
        self._lines: RecentLines | None = None  # None without listeners
        self._topic = topic.start(AttachmentHost(job.name, job.engine, job.workers), self.look)
        weakref.finalize(job, self._topic.finish).atexit = False

    def look(self) -> None:
        """Publish a complete document at once, for a new listener; thread-safe."""
        with self._lock:
            if self._is_over:
                return
            self._is_whole_due = True
            self._wake.set()
            if self._lines is None:
                self._lines = RecentLines(self._here, "tidewheel")
                self._lines.follow()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tidewheel-telemetry", daemon=True)
                self._thread.start()

    def open(self) -> None:
        self._topic.open()
        self.look()

    def tell(self) -> None:
        self._wake.set()

    def fail(self, error: TidewheelError) -> None:
        """Describe the job at once. A dead worker is shown as dead until the job has returned to a snapshot."""
        job = self._job()
        if isinstance(error, WorkerGone) and error.worker is not None and job is not None:
            self._dead[error.worker] = job._life.returns
        self._wake.set()

    def finish(self, state: str, *, waits: bool) -> None:
        with self._lock:
            self._is_over, self._end_state = True, state
            self._wake.set()
            thread = self._thread
        if thread is None:
            self._topic.finish()
        elif waits:
            thread.join(_END_S)

    def _here(self) -> Mapping[str, object]:
        job = self._job()
        return {} if job is None else job._here()

    # ------------------------------------------------------------------ on a thread of its own

    def _run(self) -> None:
        try:
            while self._describe_once():
                self._wake.wait(max(PERIOD_S, self._pause_s))
                if self._wake.is_set():  # listeners that come at the same time share one document
                    self._wake.clear()
                    if not self._is_over:
                        threading.Event().wait(_SOONEST_S)
        except (Exception, SystemExit):  # Ray raises SystemExit where it is shut down
            _LOGGER.exception("the telemetry of a job has failed; the job goes on")
            self._topic.finish()

    def _describe_once(self) -> bool:
        with self._lock:
            is_over, is_whole = self._is_over, self._is_whole_due
            self._is_whole_due = False
            if not (is_over or is_whole or self._topic.listeners):
                self._thread = self._collector = self._lines = None
                return False
        job = self._job()
        try:
            if job is not None:
                self._publish(job, is_whole=is_whole)
        except (Exception, SystemExit):
            if is_over:
                raise
            level = logging.DEBUG if self._has_warned else logging.WARNING
            _LOGGER.log(level, "job %r could not be described", "" if job is None else job.name, exc_info=True)
            self._has_warned = self._is_whole_due = True
        if is_over or job is None:
            self._topic.finish()
            return False
        return True

    def _publish(self, job: ObservedJob, *, is_whole: bool) -> None:
        if self._collector is None:
            from tidewheel.runtime.telemetry.collector import Collector  # loaded only where there are listeners

            self._collector, is_whole = Collector(self._facts(job), time.perf_counter), True
        began = time.thread_time()
        document = self._collector.document(self._observe(job)) | {"picture": self._picture}
        told = document if is_whole else patch(self._told, document)
        self._told = document
        self._topic.publish({"whole": is_whole, "document": told})
        if job.engine == "local" and not is_whole:  # the job's operators wait for this
            self._pause_s = _PAUSE_PER_WORK * (time.thread_time() - began)

    @cached_property
    def _picture(self) -> str:
        from tidewheel.runtime.drawing.picture import svg_of

        return svg_of(self._outline)

    def _facts(self, job: ObservedJob) -> "JobFacts":
        from tidewheel.runtime.telemetry.observation import JobFacts

        about: Document = {
            "name": job.name,
            "dataflow": job.plan.name,
            "engine": job.engine,
            "workers": job.workers,
            "since": round(self._since, 3),
            "host": job._host,
        }
        if job._snapshots is not None:
            about["snapshots"] = job._snapshots.url
        if job.engine == "ray" and (dashboard := dashboard_url()):
            about["ray_dashboard"] = dashboard
        return JobFacts(about, job.plan, job._compiled, self._outline, job.config.bytes_in_flight)

    def _observe(self, job: ObservedJob) -> "Observation":
        from tidewheel.runtime.telemetry.observation import Observation

        error = job._life.error
        state, reports = (job._state, ()) if error is not None else job._look(_ANSWER_S)
        dead = [worker for worker, returns in self._dead.copy().items() if returns == job._life.returns]
        living = (report for report in reports if report.worker not in dead)
        taken = job._snapshots
        return Observation(
            at=time.time(),
            state=self._end_state or state,  # a job that is busy to its end does not answer
            reports=(*living, *(BusyWorker(worker, is_dead=True) for worker in dead)),
            feed=job._feed,
            error=None if error is None else str(error),
            notes=(*job._notes(), *job._attachments.problems()),
            returns=job._life.returns,
            topics={} if self._is_over or state == "going back" else self._topics(job),
            next_snapshot="" if taken is None else taken.next,
            snapshots=None if taken is None else {"folder": taken.url, **taken.last},
            lines=() if self._lines is None else self._lines.of(job.name),
        )

    def _topics(self, job: ObservedJob) -> dict[str, Sequence[Mapping[str, int]]]:
        began = time.monotonic()
        if began < self._topics_after:
            return {}
        found = {name: topic.statistics() for name, topic in job._attachments.topics.items() if name in job.plan.topics}
        now = time.monotonic()
        self._topics_after = now + (now - began) * _REST_PER_ASKING if now - began > _ANSWER_S else now
        return found


def telemetry_of(job: ObservedJob, description: DataflowDescription) -> NoTelemetry:
    if description.telemetry is None:
        return NoTelemetry()
    return JobTelemetry(job, description.outline(), description.telemetry)
