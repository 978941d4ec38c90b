"""A running dataflow, as the driver sees it."""

import logging
import threading
import time
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Self

from tidewheel.display.notebook_cell import is_notebook
from tidewheel.host.attachment import Attachment, RunningTopic
from tidewheel.host.log_lines import about
from tidewheel.progress import CompiledGraph, TidewheelError
from tidewheel.runtime.description.checked_records import checked
from tidewheel.runtime.description.dataflow_description import DataflowDescription, Described, description_of
from tidewheel.runtime.description.loose_ends import warn_of_loose_ends
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.engines import job_block
from tidewheel.runtime.engines.added_dataflows import AddedDataflows
from tidewheel.runtime.engines.captured import CapturedBatches
from tidewheel.runtime.engines.captures import Captures
from tidewheel.runtime.engines.job_life import JobLife
from tidewheel.runtime.engines.logged_progress import LoggedProgress
from tidewheel.runtime.engines.looking_up import DriverAsker, LookedUp, LookUps
from tidewheel.runtime.engines.notebook import Figures, JobPicture
from tidewheel.runtime.engines.probe_handle import ProbeHandle
from tidewheel.runtime.engines.running_attachments import RunningAttachments
from tidewheel.runtime.engines.shown_progress import ShownProgress
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.explaining.explainer import PAUSED, Explainer, explicable
from tidewheel.runtime.explaining.explanation import Explanation
from tidewheel.runtime.explaining.job_view import JobView
from tidewheel.runtime.explaining.standing import Standing, standing_of
from tidewheel.runtime.inputs.driver_handles import DriverHandles
from tidewheel.runtime.inputs.fed_inputs import FedInput
from tidewheel.runtime.inputs.feed import Feed
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.runtime.messages.statistics import JobStatistics
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.snapshots.job_snapshots import JobSnapshots
from tidewheel.runtime.snapshots.snapshots import Snapshots
from tidewheel.runtime.telemetry.job_telemetry import NoTelemetry, telemetry_of

_LOGGER = logging.getLogger(__name__)
_LOOK_S = 0.5


class Job(ABC):
    """A running dataflow. Use it as a ``with`` block, whose end also ends the job.

    The end of the block waits until the job is complete, as `wait` does. It raises JobError if the job cannot complete,
    because an input is open in this process, a source has no end, or the job was never started. After `stop`, and after
    an exception in the block, the job ends at once.
    """

    engine: Literal["local", "ray"]
    _feed: Feed
    """The feed that carries the inputs to the workers. Each return to a snapshot replaces the feed."""
    _shared: Any
    """The workers of this job, which also run added dataflows."""

    def __init__(self, plan: Plan, workers: int, config: RuntimeConfig, shared: Any = None) -> None:
        self.plan = plan
        self.name = f"{plan.name}-{uuid.uuid4().hex[:8]}"
        self.workers = workers
        self.config = config
        graph = plan.graph()
        self.probe_nestings = {name: graph.nesting(source) for name, source in plan.probes.items()}
        self.outermost_probes = {name: at.domain for name, at in self.probe_nestings.items() if not at.depth}
        self._host = self.name
        self._life = JobLife(self.name)
        self._handles = DriverHandles(self.name)
        self._snapshots: JobSnapshots | None = None
        self._captures = Captures(self)
        self._lookups = LookUps(DriverAsker(self))
        self._added: AddedDataflows[Self] = AddedDataflows(self.name, plan.name)
        self._attachments = RunningAttachments(self.name)
        self._telemetry = NoTelemetry()
        self._shown = ShownProgress(self.name, self._standing, runs_elsewhere=self.engine == "ray")
        self._logged = LoggedProgress(self.name, self._progress)
        self._released = False
        # One lock for the job and its inputs: a feeder may run the job, and an operator may feed an input.
        self._lock = threading.RLock()

    def _bring_up(self, description: DataflowDescription, *, paused: bool, snapshots: Snapshots | None = None) -> Self:
        try:
            if snapshots is not None:
                self._remember(snapshots)
            self._deploy(description.attachments)
            with self._lock:  # a job that goes back at this moment takes all handles with it, or none
                self._open_inputs()
            self._telemetry = telemetry_of(self, description)
            self._picture = JobPicture(self.name, description.outline(), self._done_so_far, description.telemetry)
            said = "job %r is deployed: %d worker(s) %s"
            _LOGGER.info(said, self.name, self.workers, self._place, extra=about(self.name))
            if not paused:
                self.start()
        except BaseException:
            self._life.is_stopped = True
            self._attachments.finish(f"job {self.name!r} could not start")
            self._telemetry.finish("stopped", waits=False)
            self._release()
            self._let_go_of_snapshots()
            raise
        return self

    def _remember(self, settings: Snapshots) -> None:
        self._snapshots = JobSnapshots(settings, self.name, self.plan, self.workers)
        found = self._snapshots.manifest
        where = self._snapshots.url
        _LOGGER.info(
            "job %r %s",
            self.name,
            f"begins without a snapshot; it keeps its own in {where}"
            if found is None
            else f"goes on from snapshot {found.number} in {where}",
            extra=about(self.name),
        )

    def _open_inputs(self) -> None:
        snapshots = None if self._snapshots is None or self._snapshots.manifest is None else self._snapshots
        if snapshots is not None:
            self._feed.snapshot = snapshots.number
        for name, operator in self.plan.inputs.items():
            domain = self.plan.input_nesting(name).domain
            check = getattr(self.plan.operators[operator].build, "check", None)
            fed = self._feed.inputs[name] = FedInput(name, domain, self._feed, check=check)
            self._handles.open(fed, None if snapshots is None else snapshots.positions.get(name))

    def _let_go_of_snapshots(self) -> None:
        if self._snapshots is not None:
            self._snapshots.release()

    # ------------------------------------------------------------------ for engines

    @property
    @abstractmethod
    def _place(self) -> str: ...

    @abstractmethod
    def _deploy(self, attachments: Mapping[str, Attachment]) -> None: ...

    @abstractmethod
    def start(self) -> None:
        """Begin to run, if the job was deployed with ``paused=True``; idempotent."""

    @abstractmethod
    def _release(self) -> None:
        """Release the workers, even if they are busy. An added dataflow releases only its own part of them."""

    @abstractmethod
    def _fetch_captured(self, name: str) -> CapturedBatches: ...

    @abstractmethod
    def _take_snapshot(self, snapshots: JobSnapshots, timeout_s: float) -> int:
        """Take a snapshot and return its number; raise SnapshotError or TimeoutError on failure."""

    @abstractmethod
    def _wait_for(
        self, condition: Callable[[], bool], what: str, timeout_s: float | None, probe: str | None = None
    ) -> None:
        """Run rounds, or wait, until ``condition()`` is true.

        If the program waits for a probe, pass its name as ``probe``: errors then explain what holds it back.

        Raises:
            TimeoutError: the condition was not true in time.
            JobError: the condition can never be true.
        """

    @abstractmethod
    def _reports(self) -> Sequence[WorkerReport | BusyWorker]: ...

    @abstractmethod
    def _look(self, within_s: float) -> tuple[str, Sequence[WorkerReport | BusyWorker]]:
        """Return the job's state and the reports of its workers, within about ``within_s`` seconds; thread-safe.

        A worker without a new report is left out.
        """

    def _here(self) -> Mapping[str, object]:
        return {}

    # ------------------------------------------------------------------ for users

    def probe(self, name: str) -> ProbeHandle:
        """Return the handle of a probe; raise JobError if there is no such probe."""
        return ProbeHandle(self, known(self.plan, "probe", name, self.plan.probes))

    def add(self, flow: Described, *, paused: bool = False) -> Self:
        """Run one more dataflow on the workers of this job.

        The returned job has its own inputs, probes, topics and statistics. A failing operator ends only its own
        dataflow and the dataflows added to that. All added dataflows end with this job. They have no snapshots; while
        any exists, the death of a worker fails this job instead of returning it to a snapshot.

        Args:
            flow: the dataflow. Its name must differ from the names of this job's dataflow and the added ones.
            paused: as for `run`.

        Raises:
            GraphError: the dataflow is wrong, or its name is taken.
            JobError: deployment failed, or this job has failed or was stopped.
        """
        self._life.check_alive()
        description = description_of(flow, "job.add()")
        warn_of_loose_ends(description)
        name = description.name
        with self._added.coming(name):
            plan = checked(description.plan(), self.config.check_records)
            job = type(self)(plan, self.workers, self.config, self._shared)
            job._host = self._host
            self._added.put(name, job._bring_up(description, paused=paused))
        if self._life.has_ended:  # the job has ended meanwhile, perhaps without this dataflow
            job._end(on_purpose=False)
            self._life.check_alive()
        return job

    def drop(self, name: str) -> None:
        """Stop an added dataflow, and release its resources on the workers.

        Raises:
            JobError: there is no added dataflow of that name.
        """
        self._added.take(name).stop()

    @property
    def dataflows(self) -> "Mapping[str, Job]":
        """The jobs of the added dataflows that were not dropped, by name."""
        return self._added.by_name

    def topic(self, name: str) -> RunningTopic:
        """Return the running publication of ``stream.publish(name)``; raise JobError if there is no such topic."""
        topics = self._attachments.topics
        return topics[known(self.plan, "topic", name, topics)]

    def explain(self, probe_or_topic: str | ProbeHandle) -> Explanation:
        """Return what holds back the frontier at a probe, topic or capture; print it, or read its ``holders``.

        Args:
            probe_or_topic: a probe, or the name of a probe, topic or capture. A name stands for the first of these that
                has it.

        Raises:
            JobError: nothing has that name, the probe belongs to another job, or the job has failed or was stopped.
        """
        if isinstance(probe_or_topic, ProbeHandle):
            name = probe_or_topic.name
            if probe_or_topic.job is not self:
                raise JobError(f"probe {name!r} belongs to another job than {self.name!r}: have that job explain it")
        else:
            name = known(self.plan, "probe, topic or capture", probe_or_topic, explicable(self.plan))
        self._life.check_alive()
        return self._picture.with_view(self._explainer().explain(name))

    def statistics(self) -> JobStatistics:
        """Return the statistics of each operator, edge and worker; print them for a table.

        Raises:
            JobError: the job has failed or was stopped.
        """
        self._life.check_alive()
        view = JobView(self.plan, self._compiled, self._reports())
        topics = {name: topic.statistics() for name, topic in self._attachments.topics.items()}
        return replace(view.statistics(), inputs=self._feed.inputs.statistics(view.reports), topics=topics)

    def stop(self, *, snapshot: bool = False) -> None:
        """End the job now, complete or not, and release its resources. Idempotent.

        A subscriber of a topic without a log receives the epochs that are completely published; then its iteration
        ends.

        Args:
            snapshot: whether to take a snapshot first, from which a later job continues. If the snapshot fails, the job
                runs on.

        Raises:
            JobError, SnapshotError, TimeoutError: as for `snapshot`, with ``snapshot=True``.
        """
        if snapshot and not self._released:
            self.snapshot()
        self._end(on_purpose=True)

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """True if every frontier is empty: no more work can arrive."""

    def wait(self, timeout_s: float | None = None, *, progress: bool | None = None) -> None:
        """Wait until every frontier is empty: sources have ended, inputs are closed, all work is done.

        This includes added dataflows.

        Args:
            timeout_s: in seconds; None waits without limit.
            progress: whether to show on standard error, each second, the epoch, the records, their rate, and what the
                job waits for. By default this starts after five seconds, in a terminal or notebook.

        Raises:
            JobError: an operator raised (the error names it, its worker and the time), a worker died, or the job was
                stopped.
            TimeoutError: the job did not end within ``timeout_s`` seconds.
        """
        job_block.wait(self, timeout_s, progress)

    def captured(self, name: str) -> CapturedBatches:
        """Return the batches of ``stream.capture(name)`` so far, worker by worker, in order of arrival.

        The result is a sequence, and equals a list of the same items. It has all batches of a time once a probe has
        passed the time, and all batches after `wait`. The batches of a complete job can also be read after the ``with``
        block. On Ray, batches stay in the object store of the workers' nodes until they are read.

        Raises:
            JobError: there is no capture of that name, or the job has failed or was stopped before its end. Also if the
                program has neither waited for the job nor read a probe, since it could not know which batches are
                there.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("squares")
        >>> numbers = flow.source("numbers", tw.IterableSource([[(0, [1, 2])]]))
        >>> _ = numbers.map(lambda n: n * n).capture("squares")
        >>> with tw.run(flow, engine="local") as job:
        ...     pass  # its end waits until the job is complete
        >>> job.captured("squares")
        [Captured(time=0, batch=[1, 4])]
        """
        known(self.plan, "capture", name, self.plan.captures)
        return self._captures.read(name)

    def lookup(self, name: str, key: Any, *, time: int | None = None, timeout_s: float | None = 10.0) -> LookedUp:
        """Return the values of a key, or of several, in a collection at one complete epoch.

        The dataflow must have called ``collection.lookup(name)``. The workers that own the keys answer between two
        steps, also in an idle dataflow. On Ray this is thread-safe. The epochs of successive calls never decrease,
        unless you pass ``time`` or the job has returned to a snapshot.

        Args:
            name: the name of the look-ups.
            key: a key, or a list of keys.
            time: the epoch; the call waits until it is complete. By default the newest complete epoch; the call waits
                until there is one. Workers keep no older epochs, except for waiting calls.
            timeout_s: in seconds; None waits as long as the job lives.

        Raises:
            JobError: there are no look-ups of that name, a key cannot be hashed, the epoch is no longer kept, or the
                job is paused, has failed or was stopped. On the local engine also if no work is left and the epoch is
                incomplete.
            JobRolledBack: the job has returned to a snapshot, and the program must send batches again.
            TimeoutError: no answer came within ``timeout_s`` seconds.

        >>> import tidewheel as tw
        >>> flow = tw.Dataflow("prices")
        >>> changes = [(0, [("tea", 3), ("milk", 1)]), (1, [("tea", 4)])]
        >>> prices = flow.source("prices", tw.IterableSource([changes])).as_collection(upserts=True).lookup("prices")
        >>> with tw.run(flow, engine="local") as job:
        ...     job.wait()
        ...     job.lookup("prices", "tea").values, job.lookup("prices", ["tea", "milk", "oil"])
        ([4], LookedUp(time=None, counts={'tea': {4: 1}, 'milk': {1: 1}, 'oil': {}}))
        """
        return self._lookups.look_up(name, key, time, timeout_s)

    def input(self, name: str) -> InputHandle:
        """Return the first handle of an input; raise JobError if there is no such input."""
        return self._handles.by_input[known(self.plan, "input", name, self._handles.by_input)]

    def handles(self, name: str) -> list[InputHandle]:
        """Return the open handles of an input in this process.

        When a job has returned to a snapshot, in the same run or a later one, the driver has all open handles,
        including those that it had passed to other processes.

        Raises:
            JobError: there is no input of that name.
        """
        self._feed.wait_until_usable()
        return list(self._feed.inputs[known(self.plan, "input", name, self._handles.by_input)].open.values())

    def snapshot(self, timeout_s: float = 300.0) -> int:
        """Take a snapshot now, and return its number once it is complete and durable.

        Raises:
            JobError: the job has no ``snapshots=``, has failed or was stopped.
            SnapshotError: the snapshot could not be taken or written; the message says why.
            TimeoutError: the snapshot is not complete within ``timeout_s`` seconds.
        """
        self._life.check_alive()
        if self._snapshots is None:
            raise JobError(f"job {self.name!r} keeps no snapshots: run it with snapshots=tw.Snapshots(folder)")
        if not self._life.has_started:
            raise JobError(f"job {self.name!r} is paused, and its workers take no snapshot then: call start() first")
        return self._take_snapshot(self._snapshots, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                job_block.finish(self)
        finally:
            self._end(on_purpose=False)
        if kind is None:
            job_block.raise_failure(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self._state}; {self._progress()}>"

    def _repr_html_(self) -> str:
        return self._picture.html()

    def _ipython_display_(self) -> None:
        if not is_notebook():
            raise NotImplementedError("only a notebook shows more than text")
        self._picture.show_live()

    def _done_so_far(self) -> tuple[str, Figures]:
        if self._life.has_ended:
            return self._state, {}
        state, reports = self._look(_LOOK_S)
        done = JobView(self.plan, self._compiled, reports).statistics()
        return state, done.operators if len(done.workers) == self.workers else {}

    # ------------------------------------------------------------------ the end

    def _end(self, *, on_purpose: bool) -> None:
        if self._released:
            return
        self._life.is_stopped = True
        state = self._state  # asked once, as the workers of a job may complete it at any moment
        reason: str | None = f"job {self.name!r} was stopped"
        if state == "failed" and self._life.error is not None:
            reason = str(self._life.error.args[0])
        elif state == "complete":
            reason = None
        is_cut_short = on_purpose and state == "stopped"
        sent = sum(fed.records for fed in self._feed.inputs.values())
        said = "job %r is %s; this process sent it %d record(s)"
        _LOGGER.info(said, self.name, state, sent, extra=about(self.name))
        self._feed.end_calls.tell(self._life.error)
        try:
            if state == "complete":
                self._keep_captured()
            for job in self._added:
                job._end(on_purpose=on_purpose)
            self._attachments.finish(reason, on_purpose=is_cut_short)
            self._telemetry.finish(state, waits=True)
        finally:
            self._release()
            self._released = True
            self._let_go_of_snapshots()

    def _keep_captured(self) -> None:
        self._captures.keep()

    def _fail(self, error: TidewheelError) -> None:
        if not self._life.fail(error):
            return
        reason = str(error.args[0])
        culprit = about(self.name, operator=getattr(error, "operator", None), worker=getattr(error, "worker", None))
        _LOGGER.error("job %r failed: %s", self.name, reason, extra=culprit)
        self._telemetry.finish("failed", waits=False)
        self._feed.end_calls.tell(error)
        self._release()
        self._let_go_of_snapshots()
        self._finish_after_failure(reason)
        for job in self._added:
            job._fail(JobError(f"job {job.name!r} has ended with job {self.name!r}, to which it was added: {reason}"))

    def _finish_after_failure(self, reason: str) -> None:
        self._attachments.finish(reason)

    # ------------------------------------------------------------------ how the job is

    @property
    def _state(self) -> str:
        return self._life.describe(lambda: self.is_complete)

    def _progress(self) -> str:
        if not hasattr(self, "_feed"):
            return "being deployed"
        frontiers = {name: self._feed.frontier(name, at) for name, at in self.outermost_probes.items()}
        reached = [f"probe {name!r} at {', '.join(map(repr, at)) or 'its end'}" for name, at in frontiers.items()]
        return "; ".join((*reached, self._feed.inputs.describe()))

    @cached_property
    def _compiled(self) -> CompiledGraph:
        return CompiledGraph(self.plan.graph())

    def _explainer(self) -> Explainer:
        view = JobView(self.plan, self._compiled, self._reports())
        return Explainer(view, self._feed, (*self._notes(), *self._attachments.problems()), self._next_snapshot)

    def _standing(self, before: Standing | None) -> Standing:
        view = JobView(self.plan, self._compiled, self._reports())
        explainer = Explainer(view, self._feed, self._notes(), self._next_snapshot)
        return standing_of(view, self._feed, explainer, before, time.monotonic())

    @property
    def _next_snapshot(self) -> str:
        return "" if self._snapshots is None else self._snapshots.next

    def _notes(self) -> tuple[str, ...]:
        return () if self._life.has_started else (PAUSED,)

    def _timed_out(self, what: str, timeout_s: float | None, probe: str | None = None) -> TimeoutError:
        named = [probe] if probe is not None else [*self.plan.probes, *self.plan.topics, *self.plan.captures]
        hint = f"; job.explain({named[0]!r}) says what holds it back" if named else ""
        told = "; ".join(
            (f"waited {timeout_s} s for {what}", *self._attachments.problems(), self._feed.inputs.describe())
        )
        return TimeoutError(f"{told}{hint}")


def end_with_program(ended: "weakref.ref[Job]") -> None:
    """End a job because its program ends, and log which work is lost.

    Call this before Ray disconnects, since a disconnection would fail the job.
    """
    job = ended()
    if job is not None and not job._life.has_ended:
        if not job.is_complete:
            _LOGGER.warning(
                "job %r ends with its driver, as this program ends, and the rest of its work is lost. Call job.wait() "
                "to wait for the job, or run the program as 'python -i FILE' to go on in an interactive session",
                job.name,
                extra=about(job.name),
            )
        job._end(on_purpose=False)


def known(plan: Plan, kind: str, name: str, names: Mapping[str, Any]) -> str:
    """Return ``name`` if ``names`` has it; otherwise raise JobError with the names that exist."""
    if name not in names:
        raise JobError(f"dataflow {plan.name!r} has no {kind} {name!r}; it has {sorted(names) or 'none'}")
    return name
