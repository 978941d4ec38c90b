"""A job of this process for tests of publications: it does what its script says, a step a round."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidewheel.host.attachment import AttachmentHost
from tidewheel.progress import IntegerDomain
from tidewheel.pubsub.publications.publication import Publication, RunningPublication


@dataclass
class LocalJob:
    """A host for local publications; its pump runs the next step of its script."""

    job: str = "job"
    workers: int = 1
    steps: deque[Callable[[], None]] = field(default_factory=deque)
    runs_by_itself: bool = False

    @property
    def host(self) -> AttachmentHost:
        return AttachmentHost(self.job, "local", self.workers, None if self.runs_by_itself else self._pump)

    def _pump(self) -> bool:
        if not self.steps:
            return False
        self.steps.popleft()()
        return True

    def publish(self, topic: str, capacity_bytes: int = 1 << 20) -> RunningPublication:
        return Publication(topic, IntegerDomain(), capacity_bytes).start(self.host)


def send_epoch(running: RunningPublication, time: int, *batches: Any) -> None:
    """Publish one batch at each worker at ``time``, and move all frontiers to the next."""
    for connection, batch in zip(running.handles, batches, strict=True):
        connection.data(time, batch)
        connection.frontier([(time, -1), (time + 1, 1)])
        connection.flush()


def send_end(running: RunningPublication, time: int) -> None:
    """Empty the frontiers of all workers, which is ``time`` now."""
    for connection in running.handles:
        connection.frontier([(time, -1)])
        connection.flush()


def send_numbers(job: LocalJob, running: RunningPublication, epochs: Sequence[int]) -> None:
    """Let the job publish ``[time * 10 + worker]`` for each time, a round each, and then end."""

    def sender(time: int) -> Callable[[], None]:
        return lambda: send_epoch(running, time, *([time * 10 + worker] for worker in range(job.workers)))

    job.steps.extend(sender(time) for time in epochs)
    job.steps.append(lambda: send_end(running, epochs[-1] + 1))
