"""The parts that live beside a job as long as it runs, such as the publishers of a topic.

The runtime starts attachments before the workers, gives each worker its handle, and ends them after the workers. It
knows no more of them. So operators reach publishers although this layer does not know what a publisher is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tidewheel.progress import Time


@dataclass(frozen=True, slots=True)
class AttachmentHost:
    """The facts about a job that an attachment gets when the job starts it.

    ``pump``, on the local engine only, runs the job one round in the calling thread and returns False if there was
    nothing to do. ``nodes``, on Ray only, has the id of each worker's node.
    """

    job: str
    engine: Literal["local", "ray"]
    workers: int
    pump: Callable[[], bool] | None = None
    nodes: Sequence[str] = ()


class RunningAttachment(Protocol):
    """An attachment that has been started."""

    @property
    def handles(self) -> Sequence[Any]:
        """One handle for each worker; on Ray they are pickled and sent to it."""

    @property
    def problem(self) -> str | None:
        """The obstacle that keeps it from its work at present although it runs; None if there is none."""

    def check(self) -> None:
        """Raise a `TidewheelError` if a part of it has died while the job runs; do not wait."""

    def wait_for_subscribers(self, count: int, timeout: float) -> None:
        """Wait until ``count`` subscribers are connected; raise a `TidewheelError` after ``timeout`` seconds."""

    def wait_until(self, time: Time, timeout: float) -> None:
        """Wait until every time before ``time`` is durable; raise TimeoutError after ``timeout`` seconds."""

    def statistics(self) -> Sequence[Mapping[str, int]]:
        """Return the counts of each of its parts, by name; a part that does not answer has none."""

    def finish(self, error: str | None, timeout: float) -> None:
        """End it within ``timeout`` seconds: as complete if ``error`` is None, otherwise as failed for that reason."""


class Attachment(Protocol):
    """The description of a part that a job starts beside its workers."""

    @property
    def needs_same_batches(self) -> bool:
        """Whether a job that is started again has to send it the same batches, worker by worker."""

    def start(self, host: AttachmentHost) -> RunningAttachment:
        """Start it; raise if that cannot be done, and then leave nothing behind."""
