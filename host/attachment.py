"""Attachments: parts of a job that run beside its workers: the publishers of a topic, or a pool of actors.

The runtime starts attachments before the workers, gives each worker a handle, and ends them after the workers.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from tidewheel.progress import Time


@dataclass(frozen=True, slots=True)
class AttachmentHost:
    """The job of an attachment.

    On the local engine, ``pump`` runs the job one round in the calling thread, and returns False if there was no work.
    On Ray, ``nodes`` has the id of each worker's node. ``keeps_snapshots`` tells whether the job may restart from a
    snapshot. An attachment may wait ``deploy_timeout_s`` seconds for resources of the cluster.
    """

    job: str
    engine: Literal["local", "ray"]
    workers: int
    pump: Callable[[], bool] | None = None
    nodes: Sequence[str] = ()
    keeps_snapshots: bool = False
    deploy_timeout_s: float = 60.0


class RunningAttachment(Protocol):
    handles: Sequence[Any]
    """One handle for each worker; on Ray they are pickled and sent to it."""

    @property
    def problem(self) -> str | None:
        """The attachment's current problem; None if there is none."""

    @property
    def pending(self) -> Sequence[Any]:
        """The unanswered Ray calls whose results `check` will read."""

    @property
    def has_ended(self) -> bool:
        """True if the attachment needs nothing more from the job, which may end when its workers have finished."""

    def check(self) -> None:
        """Raise a `TidewheelError` if a part of the attachment has died. Returns without waiting.

        A `JobError` fails the job for good. After another error the job returns to a snapshot, if it keeps some.
        """

    def go_back(self, nodes: Sequence[str]) -> None:
        """Prepare for new workers on these nodes: they restart from a snapshot and get new handles."""

    @abstractmethod
    def finish(self, error: str | None, timeout_s: float, *, on_purpose: bool = False) -> None:
        """End the attachment within ``timeout_s`` seconds: as complete, or with an ``error`` for its users.

        ``on_purpose`` says that the user has stopped the job.
        """


@runtime_checkable
class RunningTopic(RunningAttachment, Protocol):
    """A running topic, which has subscribers."""

    @abstractmethod
    def wait_for_subscribers(self, count: int, timeout_s: float) -> None:
        """Wait until ``count`` subscribers are connected; raise a `TidewheelError` on a timeout."""

    def wait_until(self, time: Time, timeout_s: float) -> None:
        """Wait until every time before ``time`` is durable; raise TimeoutError on a timeout."""

    @abstractmethod
    def statistics(self) -> Sequence[Mapping[str, int]]:
        """Return the statistics of each partition that answers."""


class Attachment(Protocol):
    """Describes a part of a job that runs beside the workers; `start` starts it."""

    def start(self, host: AttachmentHost) -> RunningAttachment:
        """Start the attachment; on failure raise, and leave nothing behind."""


class RunningTelemetry(Protocol):
    """The running topic on which a job describes itself."""

    @property
    def listeners(self) -> int:
        """The number of subscribers; a topic that is open to other processes counts at least one."""

    def open(self) -> None:
        """Open the topic to other processes of the cluster, in the background; idempotent."""

    def publish(self, record: Mapping[str, Any]) -> None:
        """Publish a record as the next epoch, without waiting."""

    def finish(self) -> None:
        """End the topic within about a second; idempotent."""


class LivePage(Protocol):
    def show(self, job: str) -> None:
        """Show a job of this process; the first call tells the user the address."""


class Telemetry(Protocol):
    """The description of a job's telemetry topic."""

    def start(self, host: AttachmentHost, came: Callable[[], None]) -> RunningTelemetry:
        """Start the topic; call ``came``, on any thread, for each new subscriber."""

    def page(self) -> LivePage: ...

    def view(self, job: str, chosen: tuple[str, str]) -> Any | None:
        """Return a live view of a job of this process, for a notebook; None if there can be none.

        ``chosen`` is what the view shows first, such as ``("probe", "done")``, or ``("none", "")``.
        """
