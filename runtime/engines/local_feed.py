"""The feed of a local job: the driver's commands wait for the next round."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from tidewheel.batches.batches import copy_of
from tidewheel.progress import Antichain, TimeDomain
from tidewheel.runtime.errors import JobError, TokenError
from tidewheel.runtime.inputs.feed import Admission, Feed
from tidewheel.runtime.messages.envelope import Envelope
from tidewheel.runtime.messages.input_position import InputPosition
from tidewheel.transport.socket_address import DRIVER

if TYPE_CHECKING:
    from tidewheel.runtime.engines.local_job import LocalJob

_QUIET_S = 0.2


class LocalFeed(Feed):
    def __init__(self, job: "LocalJob") -> None:
        super().__init__(DRIVER, job.workers, job._lock, job.config, job.outermost_probes)
        self._job = job
        self._take_snapshot = None if job._snapshots is None else job.snapshot

    def check_alive(self) -> None:
        self._job._life.check_alive()

    def send(self, worker: int, envelope: Envelope) -> int:
        """Add an envelope to the next round. Return the size 0, since the envelope is not pickled."""
        with self.lock:
            # As on Ray, which pickles the batch, the driver may reuse its list or array.
            copies = [msgspec.structs.replace(said, batch=copy_of(said.batch)) for said in envelope.commands]
            self._job._in_flight[worker].append(msgspec.structs.replace(envelope, commands=copies))
            self.note_sent(worker, envelope)
        self._job._rounds.wake()
        return 0

    def frontier(self, probe: str, domain: TimeDomain) -> Antichain:
        with self.lock:
            return self._job._cores[0].probes.frontier(probe)

    def receive_answers(self) -> None:
        with self.lock:
            for core in self._job._cores:
                core.questions.tell(self.questions.hear)

    def wait(self, condition: Callable[[], bool], timeout_s: float | None) -> Admission:
        job, rounds = self._job, self._job._rounds
        rests_since = time.monotonic()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while job._life.has_started and not rounds.is_under_way:
            if condition():
                return Admission.ROOM
            if deadline is not None and time.monotonic() >= deadline:
                return Admission.TIMED_OUT
            if not job._is_at_rest:
                rests_since = time.monotonic()
            until = time.monotonic() + _QUIET_S
            has_run = job._run_round() or rounds.sleep(until if deadline is None else min(until, deadline))
            if condition():
                return Admission.ROOM
            # Other dataflows may feed this dataflow, or go on for ever.
            if not has_run or (job._is_at_rest and time.monotonic() - rests_since > _QUIET_S):
                return Admission.LET_IN
        return Admission.ROOM  # only memory is the limit: nothing runs while a job is paused, or an operator sends

    def ticket(self, name: str, handle: int, position: InputPosition) -> tuple[Any, ...]:
        raise TokenError(
            f"a handle of input {name!r} cannot be pickled: the local engine runs in this process alone, and its "
            "threads may share the handle. Other processes can feed jobs of engine='ray'"
        )

    def fail(self, error: JobError) -> None:
        with self.lock:
            self._job._fail(error)

    def _taken(self, worker: int) -> int:
        return self._job._cores[worker].intake.taken.get(DRIVER, 0)
