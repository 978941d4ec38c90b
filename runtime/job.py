"""A running dataflow, as the driver holds it; the engines differ only in how work gets done meanwhile."""

import logging
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import TracebackType
from typing import Any, Literal, Self

from tidewheel.progress import Antichain, CompiledGraph, Location, Target, Time
from tidewheel.runtime.attachment import Attachment, AttachmentHost, RunningAttachment
from tidewheel.runtime.batches import Batch
from tidewheel.runtime.envelope import InputCommand
from tidewheel.runtime.errors import JobError
from tidewheel.runtime.explanation import Explainer, Explanation
from tidewheel.runtime.flow_control import UNTOLD_PARTS
from tidewheel.runtime.input_gate import Admission, InputGate
from tidewheel.runtime.input_handle import InputHandle
from tidewheel.runtime.job_view import JobView
from tidewheel.runtime.plan import Plan
from tidewheel.runtime.probe_handle import ProbeHandle
from tidewheel.runtime.runtime_config import RuntimeConfig
from tidewheel.runtime.statistics import JobStatistics
from tidewheel.runtime.worker_report import BusyWorker, WorkerReport

_LOGGER = logging.getLogger(__name__)
_FINISH_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Captured:
    """One batch that a ``capture`` kept."""

    time: Time
    batch: Batch


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
        self._attachments: dict[str, RunningAttachment] = {}
        # One lock for the job and its inputs, since who feeds an input may run the job, and an operator may feed one.
        self._lock = threading.RLock()
        gate = InputGate(config.epochs_ahead, self._has_room, self._is_past, self._wait_for_room)
        self._inputs = {
            name: InputHandle(name, plan.input_nesting(name).domain, workers, self._submit, self._lock, gate)
            for name in plan.inputs
        }
        self._submitted_bytes = [0] * workers
        graph = plan.graph()
        self._probe_domains = {name: graph.nesting(source).domain for name, source in plan.probes.items()}
        self._outermost_probes = [name for name, source in plan.probes.items() if not graph.nesting(source).depth]

    @cached_property
    def _compiled(self) -> CompiledGraph:
        return CompiledGraph(self.plan.graph())

    # ------------------------------------------------------------------ what an engine does

    @abstractmethod
    def start(self) -> None:
        """Begin to run, where the job was deployed with ``paused=True``; otherwise it has begun. Idempotent."""

    @abstractmethod
    def _submit(self, worker: int, command: InputCommand) -> None:
        """Hand a command to one worker's share of an input."""

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
    def _taken(self, worker: int) -> int:
        """Return how many of the bytes that were submitted to a worker its inputs have taken, as far as is known."""

    @abstractmethod
    def _wait_for_room(self, condition: Callable[[], bool], timeout: float | None) -> Admission:
        """Run or wait until ``condition()``, for inputs."""

    @abstractmethod
    def _fetch_captured(self, name: str) -> list[Captured]:
        """Return what all workers have captured."""

    @abstractmethod
    def _reports(self) -> Sequence[WorkerReport | BusyWorker]:
        """Return what each worker says of itself."""

    @abstractmethod
    def _notes(self) -> tuple[str, ...]:
        """Return what else may keep the job from going on."""

    @abstractmethod
    def _release(self) -> None:
        """Give up the workers, whatever they are doing."""

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether every frontier is empty: nothing can ever happen again."""

    # ------------------------------------------------------------------ what users call

    def input(self, name: str) -> InputHandle:
        """Return the handle of an input of the dataflow. Raises JobError if there is none of that name."""
        return self._inputs[self._known("input", name, self._inputs)]

    def probe(self, name: str) -> ProbeHandle:
        """Return the handle of a probe of the dataflow. Raises JobError if there is none of that name."""
        self._known("probe", name, self.plan.probes)
        return ProbeHandle(name, self._probe_domains[name], lambda: self._frontier(name), self._wait_for, self)

    def captured(self, name: str) -> list[Captured]:
        """Return what ``stream.capture(name)`` has kept so far, worker by worker, each in order of arrival.

        Raises:
            JobError: there is no capture of that name, the job has failed, or it was stopped before: read captures
                inside the ``with`` block.
        """
        self._known("capture", name, self.plan.captures)
        self._check_alive()
        return self._fetch_captured(name)

    def topic(self, name: str) -> RunningAttachment:
        """Return the running publication of ``stream.publish(name)``. Raises JobError if there is none of that name."""
        return self._attachments[self._known("topic", name, self._attachments)]

    def explain(self, probe_or_topic: str | ProbeHandle) -> Explanation:
        """Say what holds the frontier at a probe or a topic back; print what is returned, or look into its ``holders``.

        Args:
            probe_or_topic: a probe of the dataflow, or the name of one, else that of a topic.

        Raises:
            JobError: there is neither a probe nor a topic of that name, the probe belongs to another job, or the job
                has failed or was stopped.
        """
        if isinstance(probe_or_topic, ProbeHandle):
            name = probe_or_topic.name
            if not probe_or_topic.belongs_to(self):
                raise JobError(f"probe {name!r} belongs to another job than {self.name!r}: have that job explain it")
        else:
            name = self._known("probe or topic", probe_or_topic, self._explicable)
        self._check_alive()
        return self._explain_in(self._view(), name)

    @property
    def _explicable(self) -> dict[str, Location]:
        """What can be explained: the places of topics and, before topics of the same name, of probes."""
        topics = {topic: Target(operator, 0) for topic, operator in self.plan.topics.items()}
        return {**topics, **self.plan.probes}

    def _explain_in(self, view: JobView, name: str) -> Explanation:
        return Explainer(view, self._explicable[name], self._inputs).explain(name, self._notes())

    def _view(self) -> JobView:
        return JobView(self.plan, self._compiled, self._reports())

    def statistics(self) -> JobStatistics:
        """Return what each operator, edge and worker has done so far; print it for a table.

        Raises:
            JobError: the job has failed or was stopped.
        """
        self._check_alive()
        inputs = {name: handle.statistics for name, handle in self._inputs.items()}
        return replace(self._view().statistics(), inputs=inputs)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until every frontier is empty: all sources have ended, all inputs are closed, all work is done.

        Raises:
            JobError: an operator raised (the error names it, its worker and the time), a worker died, or the job was
                stopped.
            TimeoutError: it did not end within ``timeout`` seconds.
        """
        left_open = [name for name, handle in self._inputs.items() if not handle.is_closed]
        if left_open:
            _LOGGER.warning("job %r waits for its end while inputs are open: close() %s", self.name, left_open)
        self._wait_for(lambda: self.is_complete, f"job {self.name!r} to end", timeout)

    def stop(self) -> None:
        """End the job now and release all that it holds; a job that has not completed is cut short. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        complete = self._error is None and self.is_complete
        if self._error is not None:
            reason: str | None = str(self._error.args[0] if self._error.args else self._error)
        else:
            reason = None if complete else f"job {self.name!r} was stopped"
        try:
            self._finish_attachments(reason)
        finally:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None and self._error is not None:
            raise self._error

    # ------------------------------------------------------------------ shared by the engines

    def _has_room(self, worker: int, size: int) -> bool:
        on_their_way = self._submitted_bytes[worker] - self._taken(worker)
        limit = self.config.bytes_in_flight
        # Workers need not say at once that they have taken a little; and a batch larger than the limit goes alone.
        return on_their_way + size <= limit or on_their_way <= limit // UNTOLD_PARTS

    def _is_past(self, time: Time) -> bool:
        return not any(self._frontier(name).less_equal(time) for name in self._outermost_probes)

    def _start_attachments(self, attachments: Mapping[str, Attachment], pump: Callable[[], bool] | None) -> None:
        host = AttachmentHost(self.name, self.engine, self.workers, pump)
        try:
            for name, attachment in attachments.items():
                self._attachments[name] = attachment.start(host)
        except BaseException:
            self._finish_attachments(f"job {self.name!r} could not start")
            raise

    def _finish_attachments(self, reason: str | None) -> None:
        for name, running in self._attachments.items():
            try:
                running.finish(reason, _FINISH_TIMEOUT_S)
            except Exception:
                _LOGGER.exception("job %r could not end %r in good order", self.name, name)

    def _handles(self, worker: int) -> dict[str, Any]:
        return {name: running.handles[worker] for name, running in self._attachments.items()}

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
        named = [probe] if probe is not None else [*self.plan.probes, *self.plan.topics]
        hint = f"; job.explain({named[0]!r}) says what holds it back" if named else ""
        return TimeoutError(f"waited {timeout} s for {what}; {self._describe_inputs()}{hint}")

    def _describe_inputs(self, among: Collection[str] | None = None) -> str:
        """Say which inputs, ``among`` those that matter if they are known, are open."""
        names = self._inputs if among is None else among
        handles = [handle for name, handle in self._inputs.items() if name in names and not handle.is_closed]
        if not handles:
            return "all inputs are closed"
        return "open inputs: " + ", ".join(f"{handle.name!r} at time {handle.time!r}" for handle in handles)
