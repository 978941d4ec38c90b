"""A job as its inputs and snapshots see it: the handles that the driver has, and where they go on from."""

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from tidewheel.host.log_lines import about
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.engines.job_block import JobBlock
from tidewheel.runtime.errors import JobError, Rewound
from tidewheel.runtime.inputs.feed import FedInput
from tidewheel.runtime.inputs.input_handle import InputHandle
from tidewheel.runtime.messages.envelope import FIRST_HANDLE
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.runtime.snapshots.job_snapshots import JobSnapshots
from tidewheel.runtime.snapshots.snapshots import Snapshots

_LOGGER = logging.getLogger(__name__)


class RememberingJob(JobBlock):
    """A job with inputs that may keep snapshots."""

    def __init__(self, plan: Plan, workers: int) -> None:
        super().__init__(plan)
        self.workers = workers
        self._handles: dict[str, InputHandle] = {}
        self._snapshots: JobSnapshots | None = None

    @abstractmethod
    def _check_alive(self) -> None:
        """Raise JobError if the job has failed or was stopped."""

    @abstractmethod
    def _take_snapshot(self, snapshots: JobSnapshots, timeout: float) -> int:
        """Take a snapshot, and return its number; raise SnapshotError or TimeoutError if that cannot be done."""

    def _remember(self, settings: Snapshots) -> None:
        """Take snapshots, and go on from the last one."""
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

    def _open_handles(self, name: str, fed: FedInput) -> None:
        """Open the handles of an input that a snapshot has, or the first one."""
        positions = None
        if self._snapshots is not None and self._snapshots.manifest is not None:
            self._feed.snapshot = self._snapshots.number
            positions = self._snapshots.positions.get(name)
        if positions is None:  # the snapshot may be of a program that had no such input
            self._handles[name] = InputHandle(fed, fed.domain.minimum())
            return
        for number, position in positions.items():
            why = f"was closed before the snapshot was taken, with {position.batches} batches: the job has all of them"
            made = InputHandle(
                fed, position.time, number, goes_on_from=position, useless_because=why if position.is_closed else None
            )
            if number == FIRST_HANDLE:
                self._handles.setdefault(name, made)
                fed.closed_at = position if position.is_closed else None
            elif position.is_first:
                self._handles[name] = made

    def _rewind_handles(self, snapshots: JobSnapshots) -> None:
        """Have the handles go on from where the snapshot has them, by the feed that is there now."""
        for name, fed in self._feed.inputs.items():
            fed.feed = self._feed
            beginning = {FIRST_HANDLE: InputPosition(fed.domain.minimum())}
            saved = beginning if snapshots.manifest is None else snapshots.positions.get(name, beginning)
            self._rewind_input(fed, self._handles[name], saved)

    def _rewind_input(self, fed: FedInput, first: InputHandle, saved: Mapping[int, InputPosition]) -> None:
        """Have the driver hold all handles that a snapshot has, in the objects that the program knows.

        One that was handed over is that object again, whatever its number has become.
        """
        known = {**fed.ended, **fed.open}
        others = {id(handle): handle for handle in (first, *known.values())}
        fed.open.clear()
        fed.handed_over = 0
        place = saved.get(FIRST_HANDLE)
        fed.closed_at = place if place is not None and place.is_closed else None
        for number, position in saved.items():
            if position.is_closed:
                continue
            handle = first if number == FIRST_HANDLE or position.is_first else known.get(number)
            if handle is None or others.pop(id(handle), None) is None:
                handle = InputHandle(fed, position.time, number, useless_because="is new")
            handle._go_back(self._feed, number, position)
        for handle in others.values():
            handle._go_back(self._feed, handle.number, None)

    def _check_missed(self) -> None:
        self._feed.wait_until_usable()
        self._tell_of_missed(self._missed)

    def _tell_of_missed(self, missed: Sequence[InputHandle]) -> None:
        """Raise Rewound if this thread waits for what some handles have to send again."""
        if missed:
            for handle in missed:
                handle._untold.tell_this()
            names = ", ".join(sorted({repr(handle.name) for handle in missed}))
            raise Rewound(
                f"job {self.name!r} has gone back to a snapshot, as a worker or feeder has died. So the driver has an "
                f"open handle of input {names} again, at its position in the snapshot. Send again what comes after "
                "that, and close it if it was closed, or hand it over again"
            )

    @property
    def _missed(self) -> list[InputHandle]:
        return [handle for fed in self._feed.inputs.values() for handle in list(fed.open.values()) if handle._is_missed]

    def _let_go_of_snapshots(self) -> None:
        if self._snapshots is not None:
            self._snapshots.release()

    # ------------------------------------------------------------------ what users call

    def input(self, name: str) -> InputHandle:
        """Return the first handle of an input of the dataflow. Raises JobError if there is none of that name."""
        return self._handles[known(self.plan, "input", name, self._handles)]

    def handles(self, name: str) -> list[InputHandle]:
        """Return the open handles of an input that this process has.

        When a job goes on from a snapshot, the driver has all open handles, also those that it had passed to other
        processes. That is so in a later run, and after a worker or feeder has died.

        Raises:
            JobError: there is no input of that name.
        """
        self._feed.wait_until_usable()
        return list(self._feed.inputs[known(self.plan, "input", name, self._handles)].open.values())

    def snapshot(self, timeout: float = 300.0) -> int:
        """Take a snapshot now, and return its number once it is complete and durable.

        Raises:
            JobError: the job was run without ``snapshots=``, has failed or was stopped.
            SnapshotError: the snapshot cannot be taken or written; the message says why.
            TimeoutError: it is not complete within ``timeout`` seconds.
        """
        self._check_alive()
        if self._snapshots is None:
            raise JobError(f"job {self.name!r} keeps no snapshots: run it with snapshots=tw.Snapshots(folder)")
        if not self._started:
            raise JobError(f"job {self.name!r} is paused, and its workers take no snapshot then: call start() first")
        return self._take_snapshot(self._snapshots, timeout)


def known(plan: Plan, kind: str, name: str, names: Mapping[str, Any]) -> str:
    """Return a name of something of a dataflow; raise JobError if it has none of that name."""
    if name not in names:
        raise JobError(f"dataflow {plan.name!r} has no {kind} {name!r}; it has {sorted(names) or 'none'}")
    return name
