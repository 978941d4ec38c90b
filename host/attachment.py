"""Attachments: parts of a job that run beside its workers, such as the publishers of a topic.

The runtime starts attachments before the workers, hands each worker a handle, and ends them after the workers. The
runtime and pubsub share these types and do not import each other.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tidewheel.progress import Time


@dataclass(frozen=True, slots=True)
class AttachmentHost:
    """The job that starts an attachment, as the attachment sees it.

    ``pump``, on the local engine only, runs the job one round in the calling thread and returns False if there was
    nothing to do. ``nodes``, on Ray only, has the id of each worker's node. ``keeps_snapshots`` tells whether the job
    may go on from a snapshot, or go back to one.
    """

    job: str
    engine: Literal["local", "ray"]
    workers: int
    pump: Callable[[], bool] | None = None
    nodes: Sequence[str] = ()
    keeps_snapshots: bool = False


class RunningAttachment(Protocol):
    """An attachment that has been started."""

    handles: Sequence[Any]
    """One handle for each worker; on Ray they are pickled and sent to it."""

    @property
    def problem(self) -> str | None:
        """What keeps it from its work, as of a moment ago, while it runs nevertheless; None if nothing does."""

    @property
    def pending(self) -> Sequence[Any]:
        """The calls of Ray whose answers `check` receives; it is to be called when there is one."""

    @property
    def has_ended(self) -> bool:
        """Whether it needs nothing more of the job, once the workers have done all work; the job ends with that."""

    def check(self) -> None:
        """Raise a `TidewheelError` if something of it has died while the job runs; do not wait."""

    def go_back(self, nodes: Sequence[str]) -> None:
        """Prepare for workers, on these nodes, that go back to a snapshot; the handles are for them from then on.

        Raises a `TidewheelError` if that cannot be.
        """

    @abstractmethod
    def wait_for_subscribers(self, count: int, timeout_s: float) -> None:
        """Wait until ``count`` subscribers are connected; raise a `TidewheelError` after ``timeout_s`` seconds."""

    def wait_until(self, time: Time, timeout_s: float) -> None:
        """Wait until every time before ``time`` is durable; raise TimeoutError after ``timeout_s`` seconds."""

    @abstractmethod
    def statistics(self) -> Sequence[Mapping[str, int]]:
        """Return counts of what each of its parts has done, by name; none of a part that does not answer."""

    @abstractmethod
    def finish(self, error: str | None, timeout_s: float, *, on_purpose: bool = False) -> None:
        """End it within ``timeout_s`` seconds: after completion if ``error`` is None, else telling whom it concerns.

        ``on_purpose`` says that the error is none: the user has stopped the job.
        """


class Attachment(Protocol):
    """The description of something to be started beside a job."""

    def start(self, host: AttachmentHost) -> RunningAttachment:
        """Start it; raise if that cannot be done, and then leave nothing behind."""


class RunningTelemetry(Protocol):
    """The topic on which a job describes itself, while the job runs."""

    @property
    def listeners(self) -> int:
        """How many subscribers there are; what is published for other processes counts as one at least."""

    def open(self) -> None:
        """Publish for other processes of the cluster, too, from soon on; do not wait. Idempotent."""

    def publish(self, record: Mapping[str, Any]) -> None:
        """Publish a record as the next epoch; do not wait for subscribers."""

    def finish(self) -> None:
        """End the topic within about a second. Idempotent."""


class LivePage(Protocol):
    """The live page of the jobs of a process."""

    def show(self, job: str) -> None:
        """Show a job of this process; the first call tells the user where the page is."""


class Telemetry(Protocol):
    """The description of the topic on which a job describes itself."""

    def start(self, host: AttachmentHost, came: Callable[[], None]) -> RunningTelemetry:
        """Start it: nothing runs before ``came`` is called, from any thread, as a subscriber has come."""

    def page(self) -> LivePage:
        """Return the live page of this process, which the first call starts; raise if that cannot be done."""

    def view(self, job: str, chosen: tuple[str, str]) -> Any | None:
        """Return a live view of a job of this process, for a notebook to display; None if that cannot be.

        ``chosen`` is what is chosen in it, such as ``("probe", "done")``, or ``("none", "")``.
        """
