"""A running dataflow, as the driver holds it."""

import logging
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self

from tidewheel.progress import Antichain, GraphError, TidewheelError
from tidewheel.runtime.description.dataflow_description import Described, description_of
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.engines.captured import CapturedBatches
from tidewheel.runtime.engines.probe_handle import ProbeHandle
from tidewheel.runtime.engines.running_attachments import FINISH_TIMEOUT_S, RunningAttachments
from tidewheel.runtime.engines.runtime_config import RuntimeConfig
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.explaining.diagnosis import Diagnosis
from tidewheel.runtime.explaining.explanation import Explanation
from tidewheel.runtime.explaining.statistics import JobStatistics
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.runtime.inputs.job_inputs import JobInputs
from tidewheel.runtime.worker.worker_report import BusyWorker, WorkerReport
from tidewheel.transport.attachment import Attachment, RunningAttachment

_LOGGER = logging.getLogger(__name__)

_PAUSED = "the job was deployed with paused=True and has not been started: call start()"


class Job(ABC):
    """A running dataflow. Use it in a ``with`` block: leaving that stops the job and everything that it started."""

    engine: Literal["local", "ray"]

    def __init__(self, plan: Plan, workers: int, config: RuntimeConfig) -> None:
        self.plan = plan
        self.config = config
        self.workers = workers
        self.name = f"{plan.name}-{uuid.uuid4().hex[:8]}"
        self._error: BaseException | None = None
        self._stopped = False
        self._started = False
        self._attachments = RunningAttachments(self.name)
        self._added: dict[str, Job] = {}
        self._being_added: set[str] = set()
        self._naming = threading.Lock()
        self._released = False
        self._failure_told = threading.Event()
        self._failure_told.set()
        self._changed = threading.Condition()
        # One lock for the job and its inputs: a feeder may run the job, and an operator may feed an input.
        self._lock = threading.RLock()
        self._inputs = JobInputs()
        self._diagnosis = Diagnosis(
            plan, self._inputs, self._reports, lambda: (*self._notes(), *self._attachments.problems())
        )
        graph = plan.graph()
        self._probe_domains = {name: graph.nesting(source).domain for name, source in plan.probes.items()}
        self._outermost_probes = {
            name: self._probe_domains[name] for name, source in plan.probes.items() if not graph.nesting(source).depth
        }

    # ------------------------------------------------------------------ what an engine does

    @abstractmethod
    def start(self) -> None:
        """Begin to run, where the job was deployed with ``paused=True``; otherwise it has begun. Idempotent."""

    @abstractmethod
    def _host(self, plan: Plan, attachments: Mapping[str, Attachment], paused: bool) -> "Job":
        """Deploy one more dataflow on the workers of this one."""

    @abstractmethod
    def _frontier(self, probe: str) -> Antichain:
        """Return the frontier at a probe, as far as the driver knows."""

    @abstractmethod
    def _wait_for(
        self, condition: Callable[[], bool], what: str, timeout: float | None, probe: str | None = None
    ) -> None:
        """Run or wait until ``condition()``; raise TimeoutError, or JobError where it cannot come true any more.

        ``probe`` is what errors explain, if it is a probe that is waited for.
        """

    @abstractmethod
    def _fetch_captured(self, name: str) -> CapturedBatches:
        """Return what all workers have captured."""

    @abstractmethod
    def _reports(self) -> Sequence[WorkerReport | BusyWorker]:
        """Return the report of each worker."""

    @abstractmethod
    def _release(self) -> None:
        """Give up the workers, whatever they are doing. A dataflow that was added ends only its own share of them."""

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether every frontier is empty: nothing can ever happen again."""

    # ------------------------------------------------------------------ what users call

    def input(self, name: str) -> InputHandle:
        """Return the first handle of an input of the dataflow. Raises JobError if there is none of that name."""
        return self._inputs.first[self._known("input", name, self._inputs.first)]

    def probe(self, name: str) -> ProbeHandle:
        """Return the handle of a probe of the dataflow. Raises JobError if there is none of that name."""
        self._known("probe", name, self.plan.probes)
        return ProbeHandle(name, self._probe_domains[name], lambda: self._frontier(name), self._wait_for, self)

    def add(self, flow: Described, *, paused: bool = False) -> "Job":
        """Run one more dataflow on the workers of this job, beside what runs there.

        The returned job has its own inputs, probes, topics and statistics. An operator that fails
        ends only its own dataflow and those that were added to that. When this job ends, so does all that was added.

        Args:
            flow: the dataflow; its name is unlike those of this job and of the dataflows that were added to it.
            paused: as for `run`.

        Raises:
            GraphError: the dataflow is wrong, or its name is taken.
            JobError: it could not be deployed, or this job has failed or was stopped.
        """
        self._check_alive()
        description = description_of(flow, "job.add()")
        name = description.name
        with self._naming:
            if name in {self.plan.name, *self._added, *self._being_added}:
                raise GraphError(
                    f"job {self.name!r} runs a dataflow {name!r} already: drop() that, or give this another name"
                )
            self._being_added.add(name)
        try:
            job = self._added[name] = self._host(description.plan(), description.attachments, paused)
        finally:
            self._being_added.discard(name)
        if self._has_ended:  # meanwhile, and perhaps without this dataflow
            job.stop()
            self._check_alive()
        return job

    def drop(self, name: str) -> None:
        """Stop a dataflow that was added, and release all that it holds on the workers.

        Raises:
            JobError: none of that name was added.
        """
        job = self._added.pop(name, None)
        if job is None:
            has = f"it has {sorted(self._added)}" if self._added else "it has none"
            own = "; its own dataflow ends with stop()" if name == self.plan.name else ""
            raise JobError(f"no dataflow {name!r} was added to job {self.name!r}: {has}{own}")
        job.stop()

    @property
    def dataflows(self) -> "Mapping[str, Job]":
        """The dataflows that were added and not dropped, by name."""
        return dict(self._added)

    def captured(self, name: str) -> CapturedBatches:
        """Return what ``stream.capture(name)`` has kept so far, worker by worker, each in order of arrival.

        It is a sequence, and equals a list. All of a time is there once a probe has passed it, and all there is after
        `wait`. On the local engine nothing runs before something is waited for. On Ray the batches stay on the workers'
        nodes, in the object store, until the sequence is first looked at, which may be after the job has ended.

        Raises:
            JobError: there is no capture of that name, the job has failed, or it was stopped before: read captures
                inside the ``with`` block.
        """
        self._known("capture", name, self.plan.captures)
        self._check_alive()
        return self._fetch_captured(name)

    def topic(self, name: str) -> RunningAttachment:
        """Return the running publication of ``stream.publish(name)``. Raises JobError if there is none of that name."""
        return self._attachments.by_name[self._known("topic", name, self._attachments.by_name)]

    def explain(self, probe_or_topic: str | ProbeHandle) -> Explanation:
        """Say what holds the frontier back at a probe, topic or capture; print it, or look into its ``holders``.

        Args:
            probe_or_topic: a probe of the dataflow, or the name of one, else that of a topic, else of a capture.

        Raises:
            JobError: there is nothing of that name, the probe belongs to another job, or the job has failed or was
                stopped.
        """
        if isinstance(probe_or_topic, ProbeHandle):
            name = probe_or_topic.name
            if not probe_or_topic.belongs_to(self):
                raise JobError(f"probe {name!r} belongs to another job than {self.name!r}: have that job explain it")
        else:
            name = self._known("probe, topic or capture", probe_or_topic, self._diagnosis.explicable)
        self._check_alive()
        return self._diagnosis.explain(name)

    def statistics(self) -> JobStatistics:
        """Return what each operator, edge and worker has done so far; print it for a table.

        Raises:
            JobError: the job has failed or was stopped.
        """
        self._check_alive()
        view = self._diagnosis.view()
        inputs, topics = self._inputs.statistics(view.reports), self._attachments.statistics()
        return replace(view.statistics(), inputs=inputs, topics=topics)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until every frontier is empty: all sources have ended, all inputs are closed, all work is done.

        It waits for the dataflows that were added, too.

        Raises:
            JobError: an operator raised (the error names it, its worker and the time), a worker died, or the job was
                stopped.
            TimeoutError: it did not end within ``timeout`` seconds.
        """
        if self._inputs.left_open:
            names = ", ".join(map(repr, self._inputs.left_open))
            _LOGGER.warning("job %r waits for its end, but inputs are open: close() %s", self.name, names)
        deadline = None if timeout is None else time.monotonic() + timeout
        self._wait_for(lambda: self.is_complete, f"job {self.name!r} to end", timeout)
        for job in list(self._added.values()):
            job.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def stop(self) -> None:
        """End the job now and release all that it holds; a job that has not completed is cut short. Idempotent."""
        if self._released:
            return
        self._stopped = True
        complete = self._error is None and self.is_complete
        if self._error is not None:
            reason: str | None = str(self._error.args[0] if self._error.args else self._error)
        else:
            reason = None if complete else f"job {self.name!r} was stopped"
        self._inputs.tell_end(self._error if isinstance(self._error, Exception) else None)
        try:
            for job in list(self._added.values()):
                job.stop()
            self._attachments.finish(reason)
            self._failure_told.wait(FINISH_TIMEOUT_S)
        finally:
            self._release()
            self._released = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._has_ended and not self._inputs.are_fed and not self.is_complete:
            _LOGGER.warning(
                "job %r is cut short: its with block ended before the job was done, and the rest is lost. Call "
                "job.wait() in the block, or job.stop() if you want to stop early",
                self.name,
            )
        self.stop()
        if kind is None:
            self._raise_failure()

    # ------------------------------------------------------------------ shared by the engines

    def _raise_failure(self) -> None:
        """Raise what ended this dataflow or, if nothing did, one that was added."""
        if self._error is not None:
            raise self._error
        for job in self._added.values():
            job._raise_failure()

    @property
    def _has_ended(self) -> bool:
        return self._stopped or self._error is not None

    def _fail(self, error: TidewheelError) -> None:
        """End this dataflow with an error, and all that were added to it; from any thread, once."""
        with self._changed:
            if self._has_ended:
                return
            self._failure_told.clear()
            self._error = error
            self._changed.notify_all()
        reason = str(error.args[0] if error.args else error)
        _LOGGER.error("job %r failed: %s", self.name, reason)
        self._inputs.tell_end(error)
        self._release()
        self._finish_after_failure(reason)
        for job in list(self._added.values()):
            job._fail(JobError(f"job {job.name!r} has ended with job {self.name!r}, to which it was added: {reason}"))

    def _finish_after_failure(self, reason: str) -> None:
        """Tell the subscribers of this dataflow that it has failed."""
        try:
            self._attachments.finish(reason)
        finally:
            self._failure_told.set()

    def _notes(self) -> tuple[str, ...]:
        """Return what else may keep the job from going on."""
        return () if self._started else (_PAUSED,)

    def _check_alive(self) -> None:
        if self._error is not None:
            raise self._error
        if self._stopped:
            raise JobError(f"job {self.name!r} was stopped: use it inside its with block")

    def _known(self, kind: str, name: str, names: Mapping[str, Any]) -> str:
        if name not in names:
            raise JobError(f"dataflow {self.plan.name!r} has no {kind} {name!r}; it has {sorted(names) or 'none'}")
        return name

    def _timed_out(self, what: str, timeout: float | None, probe: str | None = None) -> TimeoutError:
        named = [probe] if probe is not None else [*self.plan.probes, *self.plan.topics, *self.plan.captures]
        hint = f"; job.explain({named[0]!r}) says what holds it back" if named else ""
        told = "; ".join((f"waited {timeout} s for {what}", *self._attachments.problems(), self._inputs.describe()))
        return TimeoutError(f"{told}{hint}")
