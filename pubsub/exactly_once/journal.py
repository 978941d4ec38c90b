"""The journal of a partition's logged batches, by epoch, so that a repeated batch is logged once.

A worker that starts again sends everything that may not be durable. The place of a batch is its time, and its number
among the batches of that time. The journal skips a batch whose place is logged. It also skips moves of the frontier
until the worker has caught up with the log.

A job that begins again, or goes back to a snapshot, starts a new *generation*. It may send its records in other
batches, in another order and at other partitions. The journal skips epochs that were complete at all partitions;
`epochs_again` compares their content. In later epochs, the batches after the snapshot become permanently void and are
sent again; the log records this as a `WentBack`. A snapshot that counts void batches as valid is refused.

A partition that has ended cannot go back, so it ends only when all partitions have received everything. Until then, the
last move of a worker's frontier, to the empty frontier, is logged as an empty move.

===================  ==========================  =====================================================
time of the batch    its number                  outcome
===================  ==========================  =====================================================
completed            any                         left out
latent or active     below what is logged        left out, if it is the same; otherwise an error
latent or active     the next                    logged
latent or active     later                       an error: something before it is missing
===================  ==========================  =====================================================

Source: seed "Gryphon exactly-once", section 2.2 (what is logged is published, and nothing else); seed "Strymon
publish-subscribe", section "Design Goals" (epoch states).
"""

import pickle
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from tidewheel.progress import Antichain, MutableAntichain, ProtocolError, Time, TimeDomain
from tidewheel.pubsub.log.payload_area import LEAST_BYTES
from tidewheel.pubsub.messages.wire import Generation, WentBack, WorkerPosition
from tidewheel.pubsub.protocol.epochs import EpochStates, TimeChains, has_moved_back
from tidewheel.storage.checksum import crc32c
from tidewheel.storage.log_records import ends_checksum
from tidewheel.transport.frames import Payload

_MOST_RETURNS = 100
"""The number of returns that the journal keeps separately; batches between older returns all count as void."""


def checksum_of(payload: Payload, *, is_in_memory: bool = False) -> int:
    """Return a checksum, which is the same for two different payloads in one of four billion cases.

    For a large payload in a log in memory, only its length and both ends count.
    """
    return ends_checksum(payload) if is_in_memory and len(payload) >= LEAST_BYTES else crc32c(payload)


class LogPlace(NamedTuple):
    """The position of a partition's log.

    Attributes:
        lower: its lower frontier; empty if the partition has ended.
        generation: how often the job has gone back or begun again.
        complete: the frontier of the whole topic when the generation began; empty before the first return.
        has_all: whether the worker has sent everything in this generation.
    """

    has_begun: bool
    lower: list[Time]
    generation: int
    complete: tuple[Time, ...] = ()
    has_all: bool = False


def have_all(places: Sequence[LogPlace]) -> bool:
    """Tell whether all logs have received everything, and some still lack the end of the topic."""
    is_whole = all(place.has_all and place.generation == places[0].generation for place in places)
    return is_whole and any(place.lower for place in places)


def next_generation(domain: TimeDomain, places: Sequence[LogPlace]) -> Generation:
    """Return the generation of a job that begins again, or goes back.

    The generation is new, unless nothing is logged or a partition has ended: then the worker must send the same batches
    again.
    """
    newest = max(places, key=attrgetter("generation"))
    number = newest.generation
    has_ended = not all(place.lower for place in places)
    if has_ended and all(place.generation == number for place in places):
        return Generation(number)
    is_new = any(place.has_begun or place.generation for place in places) and not has_ended
    # A log without the newest generation has other records in incomplete epochs than the logs with it.
    lowers = (place.lower if place.generation == number else newest.complete for place in places)
    return Generation(number + is_new, tuple(Antichain(domain, chain.from_iterable(lowers))))


class ResentDifferentlyError(ProtocolError):
    """A worker that has started again sends batches that differ from the logged batches."""


class VoidSnapshotError(ProtocolError):
    """The snapshot of a job has void batches: a later job has begun without this snapshot."""


class _Return(NamedTuple):
    """A return in the log: messages after ``number`` and before ``tick`` are void, in epochs from ``lower`` on.

    Attributes:
        number: the tick of the last valid message.
        lower: the frontier of all partitions, or a later one.
        standing: for each epoch from ``lower`` on, the number of valid batches.
    """

    tick: int | None
    number: int
    lower: tuple[Time, ...]
    standing: Mapping[Time, int]

    def has(self, tick: int) -> bool:
        return self.number < tick and (self.tick is None or tick < self.tick)


class OutdatedWorkerError(ProtocolError):
    """A worker has connected after its job has gone back and another worker has taken its place."""

    def __init__(self) -> None:
        super().__init__("its job has gone back meanwhile, and another worker sends in its place")


class Journal:
    """The logged epochs of one partition.

    Attributes:
        reached: the tick of the log up to which the worker has sent the messages; it will send the later ones.
        is_sure: whether this also holds for the last skipped messages, whose epoch is complete in this log alone.

    >>> from tidewheel.progress import IntegerDomain
    >>> journal = Journal(IntegerDomain())
    >>> journal.data(0, 0, checksum=7), journal.data(0, 1, checksum=8), journal.frontier([(0, -1), (1, 1)])
    (True, True, [(0, -1), (1, 1)])
    >>> journal.begin()  # the worker starts again
    >>> journal.data(0, 0, checksum=7), journal.frontier([(0, -1), (1, 1)]), journal.data(1, 0, checksum=9)
    (False, [], True)
    """

    def __init__(self, domain: TimeDomain) -> None:
        self._domain = domain
        self._epochs = EpochStates(domain)
        self._checksums: dict[Time, list[int | None]] = {}
        self._ticks: dict[Time, list[int]] = {}
        self.reached = self._moved = -1
        self.is_sure = True
        self._worker = MutableAntichain(domain)
        self._sent: dict[Time, int] = {}
        self._unpassed = TimeChains(domain)  # the times of batches, sent or logged, that the worker may not have passed
        self._returns: list[_Return] = []
        self.begin()

    def begin(self, position: WorkerPosition | None = None, last_tick: int | None = None) -> WentBack | None:
        """Record the position at which a worker begins; return the message to log if it has gone back.

        Args:
            position: None if the worker begins at the start.
            last_tick: the last tick of the log; None to skip the check against it.

        Raises:
            ProtocolError: the log lacks batches that the worker will not send again, or its job has gone back since.
            VoidSnapshotError: the worker counts void batches as valid.
        """
        returned = None if position is None else self._returned(position)
        if position is not None and returned is not None:
            self._check_stands(position)
            self.go_back(returned)
        self.reached, self.is_sure = -1 if position is None else position.number, True
        self._may_be_void = Antichain(self._domain, () if position is None else position.generation.complete)
        self._worker = MutableAntichain(self._domain)
        self._worker.update((time, 1) for time in ([self._domain.minimum()] if position is None else position.lower))
        self._sent = {} if position is None else dict(position.sent)
        passed = [time for time in self._checksums if not self._worker.less_equal(time)]
        self._sent |= {time: len(self._checksums[time]) for time in passed}
        self._unpassed = TimeChains(self._domain, dict.fromkeys((*self._checksums, *self._sent)))
        self._is_abreast = self._worker.frontier == self._epochs.lower
        missing = [time for time in self._sent if not self._has(time, self._sent[time])]
        # After a return, and with a partial order of times, the log may be behind its worker. The number of the last
        # batch shows this.
        is_behind = not self._epochs.generation and not self._worker.frontier.dominates(self._epochs.lower)
        is_short = position is not None and last_tick is not None and position.number > last_tick
        if missing or is_behind or is_short:
            raise ProtocolError(
                f"the log lacks batches that its worker takes for durable. The log is at {self._epochs.lower!r}, and "
                f"the worker at {self._worker.frontier!r}, with batches {self._sent!r}. "
                "Is this the directory of the log?"
            )
        return returned

    def _returned(self, position: WorkerPosition) -> WentBack | None:
        generation = position.generation.number
        if generation < self._epochs.generation:
            raise OutdatedWorkerError
        if generation == self._epochs.generation:
            return None
        complete = Antichain(self._domain, position.generation.complete)
        behind = Antichain(self._domain, position.lower)
        # New events come after both frontiers. The later of them is the frontier; if neither is later, the worker must
        # catch up.
        lower = behind if complete.dominates(behind) else complete
        standing = {time: sent for time, sent in position.sent.items() if sent and lower.less_equal(time)}
        passed = () if behind.dominates(lower) else tuple(behind)
        return WentBack(generation, position.number, list(lower), standing, tuple(complete), passed)

    def _check_stands(self, position: WorkerPosition) -> None:
        """Raise VoidSnapshotError if a position counts batches as valid that an earlier return has made void.

        Epochs that are complete at all partitions do not matter.
        """
        complete = Antichain(self._domain, position.generation.complete)
        worker = Antichain(self._domain, position.lower)
        for earlier in self._returns:
            if not earlier.has(position.number):
                continue
            lower = Antichain(self._domain, earlier.lower)
            void = [
                time
                for time, batches in position.sent.items()
                if complete.less_equal(time) and lower.less_equal(time) and earlier.standing.get(time, 0) < batches
            ]
            if void or not (worker.dominates(complete) or worker.dominates(lower)):
                epochs = f"epochs {void!r}" if void else f"epochs from {list(complete)!r} on"
                raise VoidSnapshotError(
                    f"the snapshot from which this job goes on has batches of {epochs} that a later job has made void, "
                    "as it began without this snapshot. They would never come again. Go on from a later snapshot, or "
                    "remove these snapshots and begin without one: epochs that are complete in the log are left out "
                    "then, and the others are published anew"
                )

    def _has(self, time: Time, batches: int) -> bool:
        return not self._epochs.lower.less_equal(time) or len(self._checksums.get(time, ())) >= batches

    # Input of the worker

    def data(self, time: Time, number: int, checksum: int) -> bool:
        """Receive one batch; return whether to log it.

        Raises:
            ProtocolError: the worker has passed that time, or an earlier batch is missing.
            ResentDifferentlyError: a different batch is logged at its place.
        """
        if not self._worker.less_equal(time):
            raise ProtocolError(f"a batch came at time {time!r}, which the frontier of its worker has passed")
        if self._epochs.is_completed(time):
            self.is_sure = self.is_sure and not self._may_be_void.less_equal(time)
            return False
        logged = self._checksums.get(time, [])
        if number > len(logged):
            raise ProtocolError(f"batch {len(logged)} of time {time!r} is missing: batch {number} came")
        self._sent[time] = max(self._sent.get(time, 0), number + 1)
        if number == len(logged):
            self.record(time, checksum)
            return True
        if logged[number] not in (checksum, None):
            raise ResentDifferentlyError(
                f"batch {number} of time {time!r} differs from the logged one. A job that starts again must send the "
                "same batches in the same order. If this is another job, give the topic another log"
            )
        if time in self._ticks:
            self.reached, self.is_sure = max(self.reached, self._ticks[time][number]), True
        return False

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> list[tuple[Time, int]]:
        """Receive one move of the worker's frontier; return the part to log, as one move.

        Raises:
            ProtocolError: the frontier moved back.
            ResentDifferentlyError: the frontier has passed a time at which the log has more batches than the worker
                sent.
        """
        moved = self._worker.update(updates)
        if has_moved_back(self._domain, moved):
            raise ProtocolError(f"the frontier moved back to {self._worker.frontier!r}, by {moved!r}")
        for time in chain(*self._unpassed.take_passed(self._worker.frontier)):
            batches = len(self._checksums.get(time, ()))
            if self._sent.get(time, 0) < batches:
                raise ResentDifferentlyError(
                    f"{batches} batches of time {time!r} are logged, but the worker closed the time after "
                    f"{self._sent.get(time, 0)} of them. A job that starts again must send the same batches"
                )
            if not batches:  # while the log is behind the worker, its entries stay until it has caught up
                self._sent.pop(time, None)
        is_abreast, changes = (True, moved) if self._is_abreast else self._caught_up()
        if is_abreast and not self.is_sure:  # all events before the last move in the log are sent
            self.reached, self.is_sure = max(self.reached, self._moved), True
        if not len(self._worker.frontier):
            return []
        self.advance(changes)
        self._is_abreast = is_abreast
        return changes

    def _caught_up(self) -> tuple[bool, list[tuple[Time, int]]]:
        worker, logged = self._worker.frontier, self._epochs.lower
        if not logged.dominates(worker):
            return False, []
        changes = [(time, -1) for time in logged if time not in worker]
        return True, changes + [(time, 1) for time in worker if time not in logged]

    # Contents of the log

    def go_back(self, message: WentBack) -> None:
        self._is_abreast = False
        standing = message.standing or {}
        self._returns.append(_Return(None, message.number, tuple(message.lower), dict(standing)))
        if len(self._returns) > _MOST_RETURNS:
            oldest, second, *others = self._returns
            lower = tuple(Antichain(self._domain, (*oldest.lower, *second.lower)))
            self._returns = [_Return(second.tick, min(oldest.number, second.number), lower, {}), *others]
        self._epochs.go_back(message)
        self._checksums = {time: [None] * batches for time, batches in standing.items()}
        self._ticks = {time: [message.number] * batches for time, batches in standing.items()}
        self._unpassed = TimeChains(self._domain, standing)

    def record(self, time: Time, checksum: int) -> None:
        self._epochs.observe(time)
        if time not in self._checksums:
            self._checksums[time] = []
            self._unpassed.add(time)
        self._checksums[time].append(checksum)

    def logged(self, time: Time, tick: int) -> None:
        """Record the tick at which a batch was logged, in the order of `record`."""
        self.reached, self.is_sure = tick, True
        if time in self._checksums:  # its epoch may be complete by now
            self._ticks.setdefault(time, []).append(tick)

    def moved(self, tick: int) -> None:
        """Record the tick at which a move of the frontier, or a return, was logged."""
        self._moved = tick
        if self._returns and self._returns[-1].tick is None:
            self._returns[-1] = self._returns[-1]._replace(tick=tick)

    @property
    def is_completed(self) -> bool:
        return not (len(self._worker.frontier) or self._epochs.has_all or self.has_ended)

    def complete(self) -> None:
        self._epochs.has_all = True

    def conclude(self) -> list[tuple[Time, int]]:
        """Record that the partition's end is logged, if its worker has sent everything.

        Return the frontier's last move.
        """
        changes = [(time, -1) for time in self.lower] if self._epochs.has_all else []
        self.advance(changes)
        return changes

    def advance(self, changes: list[tuple[Time, int]]) -> None:
        if changes:
            self._is_abreast = False
            self._epochs.advance(changes)
            for time in self._epochs.completed:
                self._checksums.pop(time, None)
                self._ticks.pop(time, None)
                if not self._worker.less_equal(time):
                    self._sent.pop(time, None)

    @property
    def has_ended(self) -> bool:
        return self._epochs.has_ended

    @property
    def lower(self) -> list[Time]:
        return list(self._epochs.lower)

    def epochs(self) -> EpochStates:
        """Return the states of all epochs, which the journal no longer changes."""
        epochs = EpochStates(self._domain)
        epochs.go_back(self._place())
        epochs.has_all = self._epochs.has_all
        return epochs

    def _place(self) -> WentBack:
        epochs, batches = self._epochs, {time: len(found) for time, found in self._checksums.items()}
        return WentBack(epochs.generation, -1, self.lower, batches, epochs.complete, epochs.passed)

    def snapshot(self) -> bytes:
        """Return the journal for `restore`, without the position of the worker."""
        ticks = self._ticks, self._moved
        return pickle.dumps((self._place(), self._checksums, *ticks, self._epochs.has_all, self._returns), 5)

    @classmethod
    def restore(cls, domain: TimeDomain, snapshot: bytes) -> "Journal":
        """Return the journal of a snapshot. The log must belong to this user, since the snapshot is unpickled."""
        journal = cls(domain)
        # The log of an earlier release has no returns.
        place, checksums, ticks, moved, has_all, *returns = pickle.loads(snapshot)  # noqa: S301 - from a file of this user
        journal.go_back(place)
        journal._returns = returns[0] if returns else []
        journal._epochs.has_all = has_all
        journal._checksums, journal._ticks, journal._moved = checksums, ticks, moved
        return journal
