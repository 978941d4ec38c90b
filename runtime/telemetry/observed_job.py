"""A running job as its telemetry sees it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from tidewheel.progress import CompiledGraph, TidewheelError
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.inputs.feed import Feed
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.snapshots.job_snapshots import JobSnapshots

if TYPE_CHECKING:
    from tidewheel.runtime.engines.running_attachments import RunningAttachments


class ObservedJob(Protocol):
    """The parts of a job of which documents are made. `Job` has them."""

    name: str
    plan: Plan
    workers: int
    engine: Literal["local", "ray"]
    config: RuntimeConfig
    _host: str
    _error: TidewheelError | None
    _returns: int
    _feed: Feed
    _attachments: "RunningAttachments"
    _snapshots: JobSnapshots | None

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
