"""The snapshots of one job.

Its driver begins each snapshot, collects the workers' reports, and commits the snapshot.
"""

import base64
import logging
import pickle
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import MAGIC_NUMBER
from itertools import chain
from typing import Any, TypeVar

import msgspec

from tidewheel.host.log_lines import about
from tidewheel.host.retry import Retry
from tidewheel.runtime.description.plan import Plan
from tidewheel.runtime.description.stable_hash import HASH_VERSION
from tidewheel.runtime.errors import SnapshotError
from tidewheel.runtime.messages.input_position import InputPosition, Positions
from tidewheel.runtime.messages.written_part import Blob, WrittenPart
from tidewheel.runtime.snapshots.entries import Manifest
from tidewheel.runtime.snapshots.errors import FencedError, SnapshotDamaged, SnapshotFolderGone
from tidewheel.runtime.snapshots.known_operators import (
    Found,
    Keeps,
    KnownOperator,
    find_operators,
    known_operators,
    without_own_names,
)
from tidewheel.runtime.snapshots.snapshot_folder import SnapshotFolder
from tidewheel.runtime.snapshots.snapshots import Snapshots
from tidewheel.runtime.snapshots.worker_snapshots import WorkerSnapshots
from tidewheel.runtime.state.state_pickling import classes_of_main
from tidewheel.transport.socket_address import DRIVER

_LOGGER = logging.getLogger(__name__)
_GIVEN_UP_AFTER_S = 300.0
_LEAST_PAUSE_S = 0.001
_AGAIN = Retry(first_pause_s=1.0)
"""The pauses before another attempt at an awaited snapshot that failed; at most the interval of snapshots."""
_PYTHON = MAGIC_NUMBER.hex()
"""The version of bytecode: only digests of functions of the same version can be compared."""
_MOST_FAILURES = 16
"""How many failures are remembered, for threads that wait for a snapshot that failed."""

Read = TypeVar("Read")


class JobSnapshots:
    """Owns the folder of a job's snapshots until `release`.

    Attributes:
        last: the facts of the last snapshot: its ``number``, when it was ``taken`` (seconds since 1970), its ``bytes``,
            the newly ``written_bytes`` among these, and the ``seconds`` that it took. Empty before the first snapshot.

    Raises:
        SnapshotError: the folder cannot be used, another job uses it, or the dataflow does not fit the snapshot.
    """

    def __init__(self, settings: Snapshots, job: str, plan: Plan, workers: int) -> None:
        self._settings = settings
        self._plan = plan
        self._known = known_operators(plan)
        self._has_told_names = False
        self._run = ""
        self._workers = workers
        self._folder = SnapshotFolder(settings.folder)
        self.url = self._folder.url
        self._job = job
        self._ownership = self._folder.claim(job, keep=settings.keep)
        self._lock = threading.Lock()
        self._parts: dict[int, WrittenPart] = {}
        self._begun_at: float | None = None
        self._due_at = time.monotonic() + settings.every_s
        self._failed: dict[int, str] = {}
        self._failures = 0
        self._again_at = 0.0
        self._ended = ""
        self.last: dict[str, float] = {}
        try:
            self._number = self._ownership.next_snapshot - 1
            self.go_back()
        except BaseException:
            self._ownership.release()
            raise

    @property
    def restarts(self) -> int:
        return self._settings.restarts

    @property
    def every_s(self) -> float:
        return self._settings.every_s

    def describe(self) -> str:
        return f"snapshot {self._committed} in {self.url}" if self._committed else "its beginning"

    def go_back(self) -> None:
        """Continue from the last snapshot. A pending snapshot is given up.

        Raises:
            SnapshotError: no snapshot is intact, or it does not fit the dataflow.
        """
        with self._lock:
            self._number += self.is_under_way
            self._begun_at = None
            self.manifest = self._ownership.latest_intact()
            self._committed = 0 if self.manifest is None else self.manifest.number
            self.for_workers = self._for_workers(self._folder)
            self.positions = _driver_positions(self.manifest)
            self._blobs = frozenset(() if self.manifest is None else (blob.name for blob in self.manifest.blobs))

    def read(self, by: Callable[[WorkerSnapshots], Read]) -> Read:
        """Let all workers read their state with ``by``; if a file is damaged, try the previous snapshot.

        Raises:
            SnapshotError: no snapshot is intact, or a snapshot does not fit or cannot be read.
        """
        while True:
            try:
                return by(self.for_workers)
            except SnapshotDamaged as damaged:
                self._ownership.found_damaged(damaged)
                self.go_back()

    def _for_workers(self, folder: SnapshotFolder) -> WorkerSnapshots:
        owner, manifest = (self._ownership.incarnation, self._ownership.identity), self.manifest
        if manifest is None:
            self._run = self._ownership.first_identity
            return WorkerSnapshots(folder, *owner, self._run, self._number)
        body = manifest.body
        names = self._operators_in(body)
        blobs = {blob.name: blob for blob in manifest.blobs}
        files = [[blobs[name] for name in names] for names in body["files"]]
        self._run = body["run"]
        return WorkerSnapshots(folder, *owner, self._run, self._number, files, classes_of_main(), names)

    def _operators_in(self, body: Mapping[str, Any]) -> Mapping[str, str]:
        where = f"snapshot {self._committed} in {self.url}"
        if body["dataflow"] != self._plan.name:
            raise SnapshotError(
                f"{where} is of dataflow {body['dataflow']!r}, and not of {self._plan.name!r}: use another folder"
            )
        if body["hash_version"] != HASH_VERSION:
            raise SnapshotError(
                f"{where} has keys hashed by version {body['hash_version']}, and this tidewheel has {HASH_VERSION}: "
                "run the job with the release that has taken it"
            )
        has = {one.name for one in self._known}
        dropped = {name for name in self._settings.without if name not in has}
        try:
            known = msgspec.convert(body["operators"], list[KnownOperator])
        except msgspec.ValidationError as error:
            raise SnapshotError(
                f"{where} does not say of its operators what this tidewheel has to know: run the job with the release "
                "that has taken it, or use another folder"
            ) from error
        saved = [one for one in known if one.name not in dropped]
        found = find_operators(
            saved,
            self._known,
            where=where,
            accept=self._settings.accept,
            compares_functions=body["python"] == _PYTHON,
        )
        missing = [one.name for one in saved if one.keeps and one.name not in found.gone_on]
        if missing:
            raise SnapshotError(
                f"dataflow {self._plan.name!r} has no operator {missing[0]!r}, and {where} has: give the operator or "
                f"input that name. To go on without what it had, run with Snapshots(..., without={missing!r})"
            )
        self._warn(found, where)
        return found.names

    def _warn(self, found: Found, where: str) -> None:
        if found.changed:
            _LOGGER.warning(
                "%s had other functions: %s. What they keep goes on with the new ones. If it is right for these, run "
                "with Snapshots(..., accept=%r)",
                where,
                "; ".join(f"operator {one.name!r}, {', '.join(one.arguments)}" for one in found.changed),
                [one.name for one in found.changed],
                extra=about(self._job),
            )
        if found.moved:
            _LOGGER.warning(
                "operators without names of their own go on under other names than in %s, as they have the same "
                "arguments and inputs: %s",
                where,
                ", ".join(f"{has!r} with what {had!r} had" for had, has in found.moved.items()),
                extra=about(self._job),
            )

    # ------------------------------------------------------------------ taking one

    @property
    def number(self) -> int:
        return self._number

    @property
    def is_due(self) -> bool:
        return self._begun_at is None and not self._ended and time.monotonic() >= self._due_at

    @property
    def next(self) -> str:
        if self._ended:
            return f"a snapshot, but {self._ended}"
        if self.is_under_way:
            return f"snapshot {self._number}, which is being taken"
        return f"the next snapshot, in {max(0.0, self._due_at - time.monotonic()):.0f} s"

    @property
    def committed(self) -> int:
        """The number of the last durable snapshot; 0 if there is none."""
        return self._committed

    def is_awaited(self, behind: int) -> bool:
        """Tell whether a snapshot must begin: none is pending, and the last one has at most the number ``behind``.

        After a failure the answer is False for a while, at most for the interval of snapshots.

        Raises:
            SnapshotError: the folder was removed, so the awaited snapshot will never come. Not raised if ``behind`` is
                -1, since then no operator waits.
        """
        if self._ended and behind >= 0:
            raise SnapshotError(f"what waits for a snapshot can never be seen: {self._ended}")
        return self._begun_at is None and self._committed <= behind and time.monotonic() >= self._again_at

    @property
    def has_ended(self) -> bool:
        """True if the folder was removed."""
        return bool(self._ended)

    @property
    def is_under_way(self) -> bool:
        return self._begun_at is not None

    def begin(self) -> int:
        """Begin a snapshot; return its number, for the workers; raise SnapshotError if the folder was removed."""
        with self._lock:
            if self._ended:
                raise SnapshotError(self._ended)
            self._number += 1
            self._parts = {}
            self._begun_at = time.monotonic()
            self._due_at = self._begun_at + self._settings.every_s
            return self._number

    def add(self, part: WrittenPart) -> bool:
        """Add a worker's report; return whether the snapshot can be committed."""
        with self._lock:
            if part.number != self._number or self._begun_at is None:
                return False
            self._parts[part.worker] = part
            return len(self._parts) == self._workers

    def give_up_late(self) -> None:
        """Give up a pending snapshot if a worker takes too long."""
        if self._begun_at is not None and time.monotonic() - self._begun_at > _GIVEN_UP_AFTER_S:
            late = [str(worker) for worker in range(self._workers) if worker not in self._parts]
            self._fail(f"worker {', '.join(late)} has not written its part within {_GIVEN_UP_AFTER_S:g} s")

    def commit(self) -> None:
        """Commit the complete snapshot. A failure is logged, and raised by `outcome_of`.

        Raises:
            FencedError: another job has claimed the folder.
        """
        parts = [self._parts[worker] for worker in range(self._workers)]
        failures = [f"worker {part.worker}: {part.failure}" for part in parts if part.failure is not None]
        if failures:
            self._fail("; ".join(failures))
            return
        known = self._known_in(parts)
        body = {
            "dataflow": self._plan.name,
            "run": self._run,
            "workers": self._workers,
            "operators": known,
            "python": _PYTHON,
            "hash_version": HASH_VERSION,
            "files": [[blob.name for blob in part.blobs] for part in parts],
            "positions": base64.b64encode(parts[0].positions).decode(),
        }
        blobs: dict[str, Blob] = {blob.name: blob for part in parts for blob in part.blobs}
        try:
            self._ownership.commit(self._number, blobs.values(), body)
        except SnapshotError as error:
            self._fail(str(error))
            if isinstance(error, SnapshotFolderGone):
                self._ended = str(error)
                self._ownership.abandon()
            elif isinstance(error, FencedError):
                raise
            return
        self._committed = self._number
        self._pause()
        self._note(blobs)
        self._warn_of_names(known)
        self._begun_at, self._failures = None, 0
        try:
            self._ownership.prune()
        except SnapshotError as error:
            _LOGGER.warning("old snapshots in %s stay for now: %s", self.url, error, extra=about(self._job))

    def _pause(self) -> None:
        now = time.monotonic()
        if now >= self._due_at:
            self._due_at = now + max(self.every_s, _LEAST_PAUSE_S)

    def _known_in(self, parts: Sequence[WrittenPart]) -> list[KnownOperator]:
        keeps: dict[str, Keeps] = dict.fromkeys(chain.from_iterable(part.with_records for part in parts), "records")
        keeps |= dict.fromkeys(chain.from_iterable(part.with_state for part in parts), "state")
        return [replace(one, keeps=keeps.get(one.kept_as, "")) for one in self._known]

    def _warn_of_names(self, known: Sequence[KnownOperator]) -> None:
        unnamed, self._has_told_names = [] if self._has_told_names else without_own_names(known), True
        if unnamed:
            _LOGGER.warning(
                "operators with state have no names of their own in dataflow %r: %s. A changed program may not find "
                "what they had in %s. Give each a name, as in stateful_map(..., name='totals')",
                self._plan.name,
                ", ".join(map(repr, unnamed)),
                self.url,
                extra=about(self._job),
            )

    def _note(self, blobs: Mapping[str, Blob]) -> None:
        written = sum(blob.size for name, blob in blobs.items() if name not in self._blobs)
        self._blobs = frozenset(blobs)
        self.last = {
            "number": self._number,
            "taken": round(time.time(), 3),
            "bytes": sum(blob.size for blob in blobs.values()),
            "written_bytes": written,
            "seconds": round(time.monotonic() - (self._begun_at or 0.0), 3),
        }

    def _fail(self, reason: str) -> None:
        self._failed = {**dict(list(self._failed.items())[-_MOST_FAILURES:]), self._number: reason}
        self._pause()
        self._begun_at = None
        self._failures += 1
        self._again_at = time.monotonic() + min(_AGAIN.pause_s(self._failures) or 0.0, self.every_s)
        said = "snapshot %d in %s could not be taken: %s"
        _LOGGER.warning(said, self._number, self.url, reason, extra=about(self._job))

    def outcome_of(self, number: int) -> bool:
        """Tell whether a snapshot is committed; raise SnapshotError if it has failed."""
        if number in self._failed:
            raise SnapshotError(f"snapshot {number} in {self.url} could not be taken: {self._failed[number]}")
        if self._ended and self._committed < number:
            raise SnapshotError(self._ended)
        return self._committed >= number

    def release(self) -> None:
        """Release the folder for other jobs; idempotent. Errors are logged."""
        try:
            self._ownership.release()
        except SnapshotError as error:
            _LOGGER.warning("%s", error, extra=about(self._job))


def _driver_positions(manifest: Manifest | None) -> Mapping[str, Mapping[int, InputPosition]]:
    if manifest is None:
        return {}
    packed = base64.b64decode(manifest.body["positions"])
    positions: dict[int, Positions] = pickle.loads(packed)  # noqa: S301 - the job's own snapshot
    return positions.get(DRIVER, {})
