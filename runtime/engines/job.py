"""A running dataflow, as the driver holds it."""

import logging
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

from tidewheel.display.notebook_cell import is_notebook
from tidewheel.host.attachment import Attachment, RunningAttachment
from tidewheel.host.log_lines import about
from tidewheel.progress import CompiledGraph, GraphError, TidewheelError
from tidewheel.runtime.description.checked_records import checked
from tidewheel.runtime.description.dataflow_description import DataflowDescription, Described, description_of
from tidewheel.runtime.description.loose_ends import warn_of_loose_ends
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.engines.notebook import Figures, JobPicture
from tidewheel.runtime.engines.probe_handle import ProbeHandle
from tidewheel.runtime.engines.readable_job import ReadableJob
from tidewheel.runtime.engines.remembering_job import known
from tidewheel.runtime.engines.running_attachments import RunningAttachments
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.explaining.explainer import PAUSED, Explainer, explicable
from tidewheel.runtime.explaining.explanation import Explanation
from tidewheel.runtime.explaining.job_view import JobView
from tidewheel.runtime.explaining.standing import Standing, standing_of
from tidewheel.runtime.inputs.feed import FedInput, Feed
from tidewheel.runtime.messages.statistics import JobStatistics
from tidewheel.runtime.snapshots.snapshots import Snapshots
from tidewheel.runtime.telemetry.job_telemetry import NoTelemetry, telemetry_of

_LOGGER = logging.getLogger(__name__)
_LOOK_S = 0.5


class Job(ReadableJob):
    """A running dataflow. Use it in a ``with`` block: leaving that ends the job and everything that it started.

    The end of the block waits until the job is complete, as `wait` does. It raises JobError if an input is open in this
    process, a source has no end, or the job was never started: then the job cannot complete. After `stop`, and after an
    exception in the block, the job ends at once.
    """

    _feed: Feed
    _shared: Any
    """What dataflows that are added run on as well: the workers of this one."""

    def __init__(self, plan: Plan, workers: int, config: RuntimeConfig, shared: Any = None) -> None:
        super().__init__(plan, workers)
        self.config = config
        self._attachments = RunningAttachments(self.name)
        self._being_added: set[str] = set()
        self._naming = threading.Lock()
        self._released = False
        self._telemetry = NoTelemetry()
        self._changed = threading.Condition()
        # One lock for the job and its inputs: a feeder may run the job, and an operator may feed an input.
        self._lock = threading.RLock()

    def _bring_up(self, description: DataflowDescription, *, paused: bool, snapshots: Snapshots | None = None) -> Self:
        """Bring up all that the job needs, and start it unless ``paused``; if that fails, leave nothing behind."""
        try:
            if snapshots is not None:
                self._remember(snapshots)
            self._deploy(description.attachments)
            with self._lock:  # a job that goes back meanwhile takes all of them with it, or none
                for name in self.plan.inputs:
                    domain = self.plan.input_nesting(name).domain
                    check = getattr(self.plan.operators[self.plan.inputs[name]].build, "check", None)
                    fed = self._feed.inputs[name] = FedInput(name, domain, self._feed, check=check)
                    self._open_handles(name, fed)
            self._telemetry = telemetry_of(self, description)
            self._picture = JobPicture(self.name, description.outline(), self._done_so_far, description.telemetry)
            said = "job %r is deployed: %d worker(s) %s"
            _LOGGER.info(said, self.name, self.workers, self._place, extra=about(self.name))
            if not paused:
                self.start()
        except BaseException:
            self._stopped = True
            self._attachments.finish(f"job {self.name!r} could not start")
            self._telemetry.finish("stopped", waits=False)
            self._release()
            self._let_go_of_snapshots()
            raise
        return self

    # ------------------------------------------------------------------ what an engine does

    @property
    @abstractmethod
    def _place(self) -> str:
        """Where the workers are, in words."""

    @abstractmethod
    def _deploy(self, attachments: Mapping[str, Attachment]) -> None:
        """Start the attachments, build the workers' shares of the operators, and make the feed of the inputs."""

    @abstractmethod
    def start(self) -> None:
        """Begin to run, where the job was deployed with ``paused=True``; otherwise it has begun. Idempotent."""

    @abstractmethod
    def _release(self) -> None:
        """Give up the workers, whatever they are doing. A dataflow that was added ends only its own share of them."""

    # ------------------------------------------------------------------ what users call

    def probe(self, name: str) -> ProbeHandle:
        """Return the handle of a probe of the dataflow. Raises JobError if there is none of that name."""
        return ProbeHandle(self, known(self.plan, "probe", name, self.plan.probes))

    def add(self, flow: Described, *, paused: bool = False) -> Self:
        """Run one more dataflow on the workers of this job, beside what runs there.

        The returned job has its own inputs, probes, topics and statistics. An operator that fails
        ends only its own dataflow and those that were added to that. When this job ends, so does all that was added.
        What was added keeps no snapshots. While it is there, this job does not go back to one when a worker dies.

        Args:
            flow: the dataflow; its name is unlike those of this job and of the dataflows that were added to it.
            paused: as for `run`.

        Raises:
            GraphError: the dataflow is wrong, or its name is taken.
            JobError: it could not be deployed, or this job has failed or was stopped.
        """
        self._check_alive()
        description = description_of(flow, "job.add()")
        warn_of_loose_ends(description)
        name = description.name
        with self._naming:
            if name in {self.plan.name, *self._added, *self._being_added}:
                raise GraphError(
                    f"job {self.name!r} runs a dataflow {name!r} already: drop() that, or give this another name"
                )
            self._being_added.add(name)
        try:
            plan = checked(description.plan(), self.config.check_records)
            job = type(self)(plan, self.workers, self.config, self._shared)
            job._host = self._host
            self._added[name] = job._bring_up(description, paused=paused)
        finally:
            self._being_added.discard(name)
        if self._has_ended:  # meanwhile, and perhaps without this dataflow
            job._end(on_purpose=False)
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

    def topic(self, name: str) -> RunningAttachment:
        """Return the running publication of ``stream.publish(name)``. Raises JobError if there is none of that name."""
        return self._attachments.by_name[known(self.plan, "topic", name, self._attachments.by_name)]

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
            if probe_or_topic.job is not self:
                raise JobError(f"probe {name!r} belongs to another job than {self.name!r}: have that job explain it")
        else:
            name = known(self.plan, "probe, topic or capture", probe_or_topic, explicable(self.plan))
        self._check_alive()
        return self._picture.with_view(self._explainer().explain(name))

    def statistics(self) -> JobStatistics:
        """Return what each operator, edge and worker has done so far; print it for a table.

        Raises:
            JobError: the job has failed or was stopped.
        """
        self._check_alive()
        view = JobView(self.plan, self._compiled, self._reports())
        topics = {name: topic.statistics() for name, topic in self._attachments.by_name.items()}
        return replace(view.statistics(), inputs=self._feed.statistics(view.reports), topics=topics)

    def _repr_html_(self) -> str:
        """Return a picture of the dataflow with what each operator has done so far."""
        return self._picture.html()

    def _ipython_display_(self) -> None:
        """Show the job live in a notebook until it has ended; elsewhere have the text shown."""
        if not is_notebook():
            raise NotImplementedError("only a notebook shows more than text")
        self._picture.show_live()

    def _done_so_far(self) -> tuple[str, Figures]:
        """Return the state, and what operators have done if all workers answer; from any thread."""
        if self._has_ended:
            return self._state, {}
        state, reports = self._look(_LOOK_S)
        done = JobView(self.plan, self._compiled, reports).statistics()
        return state, done.operators if len(done.workers) == self.workers else {}

    def stop(self, *, snapshot: bool = False) -> None:
        """End the job now and release all that it holds; a job that has not completed is cut short. Idempotent.

        A subscriber of a topic without a log receives the epochs that are published whole, and its iteration ends.

        Args:
            snapshot: whether to take a snapshot first, from which a later job goes on. If that fails, the job runs on.

        Raises:
            JobError, SnapshotError, TimeoutError: as `snapshot`, if one is asked for.
        """
        if snapshot and not self._released:
            self.snapshot()
        self._end(on_purpose=True)

    def _end(self, *, on_purpose: bool) -> None:
        if self._released:
            return
        self._stopped = True
        state = self._state  # asked once, as the workers of a job may complete it at any moment
        reason: str | None = f"job {self.name!r} was stopped"
        if state == "failed" and self._error is not None:
            reason = str(self._error.args[0])
        elif state == "complete":
            reason = None
        is_cut_short = on_purpose and state == "stopped"
        sent = sum(fed.records for fed in self._feed.inputs.values())
        said = "job %r is %s; this process sent it %d record(s)"
        _LOGGER.info(said, self.name, state, sent, extra=about(self.name))
        self._feed.tell_end(self._error)
        try:
            if state == "complete":
                self._keep_captured()
            for job in list(self._added.values()):
                job._end(on_purpose=on_purpose)
            self._attachments.finish(reason, on_purpose=is_cut_short)
            self._telemetry.finish(state, waits=True)
        finally:
            self._release()
            self._released = True
            self._let_go_of_snapshots()

    # ------------------------------------------------------------------ shared by the engines

    def _fail(self, error: TidewheelError) -> None:
        """End this dataflow with an error, and all that were added to it; from any thread, once."""
        with self._changed:
            if self._has_ended:
                return
            self._error = error
            self._changed.notify_all()
        reason = str(error.args[0])
        culprit = about(self.name, operator=getattr(error, "operator", None), worker=getattr(error, "worker", None))
        _LOGGER.error("job %r failed: %s", self.name, reason, extra=culprit)
        self._telemetry.finish("failed", waits=False)
        self._feed.tell_end(error)
        self._release()
        self._let_go_of_snapshots()
        self._finish_after_failure(reason)
        for job in list(self._added.values()):
            job._fail(JobError(f"job {job.name!r} has ended with job {self.name!r}, to which it was added: {reason}"))

    def _finish_after_failure(self, reason: str) -> None:
        """Tell the subscribers of this dataflow that it has failed."""
        self._attachments.finish(reason)

    @cached_property
    def _compiled(self) -> CompiledGraph:
        """The compiled graph of the dataflow."""
        return CompiledGraph(self.plan.graph())

    def _explainer(self) -> Explainer:
        """Return what explains the job as it is at this moment."""
        view = JobView(self.plan, self._compiled, self._reports())
        return Explainer(view, self._feed, (*self._notes(), *self._attachments.problems()), self._next_snapshot)

    def _standing(self, before: Standing | None) -> Standing:
        """Return how far the job has come."""
        view = JobView(self.plan, self._compiled, self._reports())
        explainer = Explainer(view, self._feed, self._notes(), self._next_snapshot)
        return standing_of(view, self._feed, explainer, before, time.monotonic())

    @property
    def _next_snapshot(self) -> str:
        """The snapshot that comes next, in words; empty if the job keeps none."""
        return "" if self._snapshots is None else self._snapshots.next

    def _notes(self) -> tuple[str, ...]:
        """Return what else may keep the job from going on."""
        return () if self._started else (PAUSED,)

    def _check_alive(self) -> None:
        if self._error is not None:
            raise self._error
        if self._stopped:
            raise JobError(f"job {self.name!r} was stopped: use it inside its with block")

    def _timed_out(self, what: str, timeout: float | None, probe: str | None = None) -> TimeoutError:
        named = [probe] if probe is not None else [*self.plan.probes, *self.plan.topics, *self.plan.captures]
        hint = f"; job.explain({named[0]!r}) says what holds it back" if named else ""
        told = "; ".join((f"waited {timeout} s for {what}", *self._attachments.problems(), self._feed.describe()))
        return TimeoutError(f"{told}{hint}")


def end_with_program(ended: "weakref.ref[Job]") -> None:
    """End a job whose program ends, and say what is lost. If Ray left its cluster first, the job would have failed."""
    job = ended()
    if job is not None and not job._has_ended:
        if not job.is_complete:
            _LOGGER.warning(
                "job %r ends with its driver, as this program ends, and the rest of its work is lost. Call job.wait() "
                "to wait for the job, or run the program as 'python -i FILE' to go on in an interactive session",
                job.name,
                extra=about(job.name),
            )
        job._end(on_purpose=False)
