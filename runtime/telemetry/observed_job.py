"""The part of a job that telemetry needs."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from tidewheel.host.attachment import RunningTopic
from tidewheel.progress import CompiledGraph, TidewheelError
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.runtime_config import RuntimeConfig
from tidewheel.runtime.inputs.feed import Feed
from tidewheel.runtime.messages.worker_report import BusyWorker, WorkerReport
from tidewheel.runtime.snapshots.job_snapshots import JobSnapshots


class Life(Protocol):
    @property
    def error(self) -> TidewheelError | None: ...

    @property
    def returns(self) -> int: ...


class Attachments(Protocol):
    @property
    def topics(self) -> Mapping[str, RunningTopic]: ...

    def problems(self) -> list[str]: ...


class ObservedJob(Protocol):
    name: str
    plan: Plan
    workers: int
    engine: Literal["local", "ray"]
    config: RuntimeConfig
    _host: str
    _feed: Feed
    _snapshots: JobSnapshots | None

    @property
    def _life(self) -> Life: ...

    @property
    def _attachments(self) -> Attachments: ...

    @property
    def _compiled(self) -> CompiledGraph: ...

    @property
    def _state(self) -> str: ...

    def _look(self, within_s: float) -> tuple[str, Sequence[WorkerReport | BusyWorker]]:
        """Return the job's state and the reports of its workers, within about ``within_s`` seconds; thread-safe."""

    def _here(self) -> Mapping[str, object]:
        """Return which job, operator and worker run on this thread, for log lines."""

    def _notes(self) -> tuple[str, ...]: ...
