"""Sending clients' postings to the workers of a job: a lane for each worker, and a watch of snapshots.

A lane makes one call at a time. Postings that arrive meanwhile go with the next call, so many small requests share one.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from tidewheel.gateway.errors import BadRequest, GatewayError, InputFull
from tidewheel.progress import TidewheelError
from tidewheel.runtime.description.shards import owner_of
from tidewheel.runtime.engines.job_by_name import JobByName, Sent
from tidewheel.runtime.engines.job_run import JobRun, RunEndedError
from tidewheel.runtime.errors import JobError, JobRolledBack
from tidewheel.runtime.inputs.door import Full, Outcome, Posting

MOST_WAITING_BYTES = 32 << 20
"""The limit, in bytes, of postings that wait in the lanes of one inbox."""

_MOST_AT_ONCE = 1000
_CALL_S = 30.0
_AGAIN_S = 0.1


@dataclass(slots=True, eq=False)
class _Load:
    """A posting on its way.

    Attributes:
        until_s: the monotonic time until which the posting is sent again if its worker dies.
    """

    posting: Posting
    until_s: float
    sent: "Future[Sent]" = field(default_factory=Future)

    def fail(self, error: Exception) -> None:
        with suppress(InvalidStateError):  # its client has left
            self.sent.set_exception(error)


class Lanes:
    """The lanes to one inbox; thread-safe, `submit` never waits."""

    def __init__(self, job: JobByName, name: str, workers: int) -> None:
        self.job = job
        self.name = name
        self._turns = count()
        self._room = threading.Lock()
        self._waiting_bytes = 0
        self._lanes = [_Lane(self, worker) for worker in range(workers)]

    def submit(self, posting: Posting, until_s: float) -> "Future[Sent]":
        """Send the bytes of a posting; return the future of its receipt.

        The future raises BadRequest for wrong records, InputFull, JobRolledBack if a dead worker may have received
        them, and JobError if the job has ended. Only a posting with a key is sent again, until ``until_s``.

        Raises:
            InputFull: too many bytes wait here already.
        """
        size = len(posting.body)
        with self._room:
            if self._waiting_bytes and self._waiting_bytes + size > MOST_WAITING_BYTES:
                raise InputFull(self.full)
            self._waiting_bytes += size
        lane = next(self._turns) if posting.key is None else owner_of(posting.key, len(self._lanes))
        load = _Load(posting, until_s)
        self._lanes[lane % len(self._lanes)].put(load)
        return load.sent

    def release(self, size: int) -> None:
        """Note that ``size`` bytes no longer wait."""
        with self._room:
            self._waiting_bytes -= size

    @property
    def full(self) -> str:
        """The reason why there is no room."""
        return (
            f"input {self.name!r} of job {self.job.name!r} is full: the dataflow reads less than is sent. Nothing was "
            "sent: try again later"
        )

    def close(self) -> None:
        """End the lanes, without waiting; waiting postings fail."""
        for lane in self._lanes:
            lane.close()


class _Lane:
    """The lane to one worker, with its thread."""

    def __init__(self, lanes: Lanes, worker: int) -> None:
        self._lanes = lanes
        self._worker = worker
        self._changed = threading.Condition()
        self._waiting: deque[_Load] = deque()
        self._is_closed = False
        name = f"tidewheel-gateway-{lanes.name}-{worker}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def put(self, load: _Load) -> None:
        with self._changed:
            if not self._is_closed:
                self._waiting.append(load)
                self._changed.notify()
                return
        self._lanes.release(len(load.posting.body))
        load.fail(JobError(f"job {self._lanes.job.name!r} has ended, or the gateway stops"))

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        while loads := self._take():
            try:
                again = self._send(loads)
            except SystemExit:  # Ray raises it in threads when this process leaves the cluster
                again = self._fail(loads, TidewheelError("the gateway has lost its Ray cluster meanwhile: try again"))
            except TimeoutError as error:
                again = self._fail(loads, GatewayError(f"{error}: send the records again, with the same key if any"))
            except Exception as error:  # noqa: BLE001  the clients receive it
                again = self._fail(loads, error)
            with self._changed:
                self._waiting.extendleft(reversed(again))
                if again:  # the cluster may list a dead worker for a while
                    self._changed.wait_for(lambda: self._is_closed, _AGAIN_S)
            kept = set(map(id, again))
            self._lanes.release(sum(len(load.posting.body) for load in loads if id(load) not in kept))

    def _take(self) -> list[_Load]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST_AT_ONCE))]

    def _fail(self, loads: Sequence[_Load], error: Exception) -> list[_Load]:
        for load in loads:
            load.fail(error)
        return []

    def _send(self, loads: list[_Load]) -> list[_Load]:
        """Send postings in one call; return the postings to send again."""
        job, name = self._lanes.job, self._lanes.name
        run = job._present(max(load.until_s for load in loads))
        try:
            outcomes = run.leave(self._worker, name, [load.posting for load in loads], _CALL_S)
        except RunEndedError as ended:
            job._forget(run)
            return [load for load in loads if not self._is_lost(load, ended)]
        for load, outcome in zip(loads, outcomes, strict=True):
            self._tell(load, outcome, run)
        return []

    def _is_lost(self, load: _Load, ended: RunEndedError) -> bool:
        """Fail a posting that must not be sent again; return whether it failed."""
        name = self._lanes.name
        if load.posting.key is None and not ended.is_refused and self._lanes.job._parts.goes_back:
            load.fail(
                JobRolledBack(
                    f"input {name!r}: {ended}. It may have had the records. Send them with an Idempotency-Key, so that "
                    "they count once"
                )
            )
        elif time.monotonic() >= load.until_s:
            load.fail(JobRolledBack(f"input {name!r}: {ended}. Send the records again, with the same key if any"))
        return load.sent.done()

    def _tell(self, load: _Load, outcome: Outcome, run: JobRun) -> None:
        lanes = self._lanes
        if isinstance(outcome, int):
            with suppress(InvalidStateError):
                load.sent.set_result(Sent(lanes.job, lanes.name, self._worker, outcome, load.posting.key, _run=run))
        elif isinstance(outcome, Full):
            load.fail(InputFull(lanes.full))
        else:
            load.fail(BadRequest(outcome.reason))


class SnapshotWatch:
    """Finds out whether snapshots have sent postings, with one call at a time for all waiting postings of a worker."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[Sent, Future[None]]] = []
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="tidewheel-gateway-saved", daemon=True).start()

    def saved(self, sent: Sent) -> "Future[None]":
        """Return a future that is done once a snapshot has the posting; it raises JobRolledBack if none ever will."""
        done: Future[None] = Future()
        with self._changed:
            self._waiting.append((sent, done))
            self._changed.notify()
        return done

    def close(self) -> None:
        """End the watch, without waiting."""
        self._closed.set()
        with self._changed:
            self._changed.notify()

    def _run(self) -> None:
        while not self._closed.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed.is_set())
                waiting, self._waiting = self._waiting, []
            left = self._look([pair for pair in waiting if not pair[1].cancelled()])
            with self._changed:
                self._waiting += left
            if left:
                self._closed.wait(_AGAIN_S)

    def _look(self, waiting: list[tuple[Sent, "Future[None]"]]) -> list[tuple[Sent, "Future[None]"]]:
        known: dict[tuple[int, str, int], int | Exception] = {}
        left: list[tuple[Sent, Future[None]]] = []
        for sent, done in waiting:
            place = (id(sent._run), sent.input, sent.worker)
            if place not in known:
                known[place] = self._ask(sent)
            saved = known[place]
            with suppress(InvalidStateError):
                if isinstance(saved, Exception):
                    done.set_exception(saved)
                elif saved >= sent.number:
                    done.set_result(None)
                else:
                    left.append((sent, done))
        return left

    def _ask(self, sent: Sent) -> int | Exception:
        try:
            return sent._saved_there()
        except TimeoutError:
            return 0  # it does not answer now
        except (Exception, SystemExit) as error:  # noqa: BLE001  the clients receive it
            return error if isinstance(error, TidewheelError) else JobError(f"the job does not answer: {error!r}")
