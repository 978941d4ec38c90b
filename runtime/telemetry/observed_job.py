"""The job's interface for its telemetry."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from tidewheel.host.attachment import RunningAttachment
from tidewheel.progress import CompiledGraph, TidewheelError
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.inputs.feed import Feed
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.snapshots.job_snapshots import JobSnapshots


class Life(Protocol):
    """The state of a job."""

    @property
    def error(self) -> TidewheelError | None:
        """Why it has failed."""

    @property
    def returns(self) -> int:
        """The number of returns to a snapshot."""


class Attachments(Protocol):
    """The attachments of a job."""

    @property
    def by_name(self) -> Mapping[str, RunningAttachment]:
        """The running ones."""

    def problems(self) -> list[str]:
        """Return, for each topic that is not being published, what prevents it."""


class ObservedJob(Protocol):
    """The parts of a `Job` that its telemetry documents describe."""

    name: str
    plan: Plan
    workers: int
    engine: Literal["local", "ray"]
    config: RuntimeConfig
    _host: str
    _feed: Feed
    _snapshots: JobSnapshots | None

    @property
    def _life(self) -> Life:
        """Whether it runs."""

    @property
    def _attachments(self) -> Attachments:
        """What it publishes."""

    @property
    def _compiled(self) -> CompiledGraph:
        """The compiled graph of the dataflow."""

    @property
    def _state(self) -> str:
        """What the job does, in a word."""

    def _look(self, within_s: float) -> tuple[str, Sequence[WorkerReport | BusyWorker]]:
        """Return the state and the reports of workers, within about ``within_s`` seconds; from any thread."""

    def _here(self) -> Mapping[str, object]:
        """Return job, operator and worker that run on this thread, for lines of the log; empty if none does."""

    def _notes(self) -> tuple[str, ...]:
        """Return what may keep the job from going on, in words."""
