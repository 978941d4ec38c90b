"""The feed in the driver of a Ray job: it carries the commands of the inputs to the workers."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidewheel.progress import Antichain, TimeDomain
from tidewheel.runtime.errors import JobError, JobRolledBack
from tidewheel.runtime.inputs.feed import Admission, Feed
from tidewheel.runtime.inputs.feed_link import FeedAddress, FeedLink, link_ends
from tidewheel.runtime.inputs.remote_feed import ticket
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.messages.feeder_status import FeederStatus
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.messages.written_part import WrittenPart
from tidewheel.transport.socket_address import DRIVER

if TYPE_CHECKING:
    from tidewheel.runtime.engines.ray_job import RayJob


class DriverFeed(Feed):
    def __init__(self, job: "RayJob", address: FeedAddress) -> None:
        super().__init__(DRIVER, len(address.actors), job._lock, address.config, address.probes)
        self.incarnation = address.incarnation
        self._address = address
        self._job = job
        self._take_snapshot = None if job._snapshots is None else job.snapshot
        self.link = FeedLink(self, address, link_ends(address, DRIVER), job._life.changed)

    def send(self, worker: int, envelope: Envelope) -> int:
        size = self.link.send(worker, envelope)
        self.note_sent(worker, envelope)
        return size

    def frontier(self, probe: str, domain: TimeDomain) -> Antichain:
        return self.link.frontier(probe, domain)

    def wait(self, condition: Callable[[], bool], timeout_s: float | None) -> Admission:
        if not self._job._life.has_started:
            return Admission.ROOM  # only memory is the limit: nothing runs while a job is paused
        return self.link.wait(condition, timeout_s)

    def ticket(self, name: str, handle: int, position: InputPosition) -> tuple[Any, ...]:
        return ticket(self._address, name, handle, position, self.snapshot)

    def fail(self, error: JobError) -> None:
        self._job._fail(error)

    def wait_until_usable(self) -> None:
        job, life = self._job, self._job._life
        if self.link.is_closed:
            with life.changed:
                life.changed.wait_for(lambda: life.has_ended or (job._link is not self.link and not life.goes_back))

    def check_alive(self) -> None:
        """Raise JobError if the job has failed or was stopped, JobRolledBack if the job now has another feed."""
        self._job._life.check_alive()
        if self.link.is_closed:
            raise JobRolledBack(
                f"job {self._job.name!r} goes back to a snapshot, as a process has died: send again what comes "
                "after the handle's position"
            )

    def go_on_from(self, before: Feed) -> None:
        """Take over the inputs and the end callbacks of a feed whose workers have died."""
        self.inputs = before.inputs
        self.end_calls.take_over(before.end_calls)

    def _taken(self, worker: int) -> int:
        return self.link.statuses[worker].taken

    # ------------------------------------------------------------------ for the link

    def tell(self, worker: int) -> None:
        with self.lock:
            if not self.link.is_closed:
                status = FeederStatus(self.link.listens_at, self.inputs.statistics())
                self.send(worker, self.envelope(worker, status=status))

    def written(self, part: WrittenPart) -> None:
        if self._job._taker is not None:
            self._job._taker.add(part)

    def snapshot_begun(self, number: int) -> None:
        """Do nothing: the driver begins all snapshots."""

    def look(self) -> None:
        if self._job._life.has_started:
            self._job._logged.look()

    def go_on(self) -> None:
        """Do nothing: the driver stays until the job ends."""

    def lose(self, error: Exception) -> None:
        if not self.link.is_closed:
            self._job._workers.fail(self._job, error)

    def disconnected(self) -> None:
        """Do nothing: the job itself reports its end."""
