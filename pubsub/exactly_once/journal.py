"""The journal of a partition's logged batches, by epochs, so that the batches of a restarted worker are logged once.

A worker that starts again sends everything from the least time on. Each batch has a place: its time, and its number
among the batches of that time. A batch at a logged place is the same batch again, and is left out. So is every batch of
a complete epoch, and every move of the frontier until the worker has caught up with the log.

===================  ==========================  =====================================================
time of the batch    its number                  outcome
===================  ==========================  =====================================================
completed            any                         left out
latent or active     below what is logged        left out, if it is the same; otherwise an error
latent or active     the next                    logged
latent or active     later                       an error: something before it is missing
===================  ==========================  =====================================================

A worker must send the same batches each time; another batch is an error.

Source: seed "Gryphon exactly-once", section 2.2 (what is logged is published, and nothing else); seed "Strymon
publish-subscribe", section "Design Goals" (epoch states).
"""

import pickle
from collections.abc import Iterable

from crc32c import crc32c

from tidewheel.progress import MutableAntichain, ProtocolError, Time, TimeDomain
from tidewheel.pubsub.messages.wire import WorkerPosition
from tidewheel.pubsub.protocol.epochs import EpochStates, has_moved_back
from tidewheel.transport.frames import Payload


def checksum_of(payload: Payload) -> int:
    """Return a checksum; two different contents share one in one of four billion cases."""
    return int(crc32c(payload))


class ResentDifferentlyError(ProtocolError):
    """A worker that started again sends other batches than the logged ones."""


class Journal:
    """The logged epochs of one partition.

    Args:
        domain: the times of the topic.

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
        self._checksums: dict[Time, list[int]] = {}
        self._worker = MutableAntichain(domain)
        self._sent: dict[Time, int] = {}
        self.begin()

    def begin(self, position: WorkerPosition | None = None) -> None:
        """Record that a worker begins to send, at its start or at a position.

        Raises:
            ProtocolError: the log lacks batches that the worker will not send again.
        """
        self._worker = MutableAntichain(self._domain)
        self._worker.update((time, 1) for time in ([self._domain.minimum()] if position is None else position.lower))
        self._sent = {} if position is None else dict(position.sent)
        self._is_abreast = self._worker.frontier == self._epochs.lower
        missing = [time for time in self._sent if not self._has(time, self._sent[time])]
        if missing or not self._worker.frontier.dominates(self._epochs.lower):
            raise ProtocolError(
                f"the log lacks batches that its worker takes for durable. The log is at {self._epochs.lower!r}, and "
                f"the worker at {self._worker.frontier!r}, with batches {self._sent!r}. "
                "Is this the directory of the log?"
            )

    def _has(self, time: Time, batches: int) -> bool:
        """Tell whether the log has so many batches of a time."""
        return not self._epochs.lower.less_equal(time) or len(self._checksums.get(time, ())) >= batches

    # Input of the worker

    def data(self, time: Time, number: int, checksum: int) -> bool:
        """Receive one batch; tell whether to log it.

        Args:
            time: its time.
            number: its number among the batches of that time, from 0 on.
            checksum: the checksum of its content.

        Raises:
            ProtocolError: the worker has passed that time, or an earlier batch is missing.
            ResentDifferentlyError: another batch is logged at its place.
        """
        if not self._worker.less_equal(time):
            raise ProtocolError(f"a batch came at time {time!r}, which the frontier of its worker has passed")
        if self._epochs.is_completed(time):
            return False
        logged = self._checksums.get(time, [])
        if number > len(logged):
            raise ProtocolError(f"batch {len(logged)} of time {time!r} is missing: batch {number} came")
        self._sent[time] = max(self._sent.get(time, 0), number + 1)
        if number == len(logged):
            self.record(time, checksum)
            return True
        if logged[number] != checksum:
            raise ResentDifferentlyError(
                f"batch {number} of time {time!r} differs from the logged one. A job that starts again must send the "
                "same batches in the same order. If this is another job, give the topic another log"
            )
        return False

    def frontier(self, updates: Iterable[tuple[Time, int]]) -> list[tuple[Time, int]]:
        """Receive one move of the worker's frontier; return the part of it to log, as one move.

        Raises:
            ProtocolError: the frontier moved back.
            ResentDifferentlyError: it has passed a time with more logged batches than the worker sent.
        """
        moved = self._worker.update(updates)
        if has_moved_back(self._domain, moved):
            raise ProtocolError(f"the frontier moved back to {self._worker.frontier!r}, by {moved!r}")
        for time, checksums in self._checksums.items():
            if not self._worker.less_equal(time) and self._sent.get(time, 0) < len(checksums):
                raise ResentDifferentlyError(
                    f"{len(checksums)} batches of time {time!r} are logged, but the worker closed the time after "
                    f"{self._sent.get(time, 0)} of them. A job that starts again must send the same batches"
                )
        self._sent = {time: sent for time, sent in self._sent.items() if self._worker.less_equal(time)}
        is_abreast, changes = (True, moved) if self._is_abreast else self._caught_up()
        self.advance(changes)
        self._is_abreast = is_abreast
        return changes

    def _caught_up(self) -> tuple[bool, list[tuple[Time, int]]]:
        """Return whether the worker has caught up with the log, and the resulting change of the log's frontier."""
        worker, logged = self._worker.frontier, self._epochs.lower
        if not logged.dominates(worker):
            return False, []
        changes = [(time, -1) for time in logged if time not in worker]
        return True, changes + [(time, 1) for time in worker if time not in logged]

    # Contents of the log

    def record(self, time: Time, checksum: int) -> None:
        """Record that a batch is logged, behind the others of its time."""
        self._epochs.observe(time)
        self._checksums.setdefault(time, []).append(checksum)

    def advance(self, changes: list[tuple[Time, int]]) -> None:
        """Record that a move of the frontier is logged."""
        if changes:
            self._is_abreast = False
            self._epochs.advance(changes)
            is_completed = self._epochs.is_completed
            self._checksums = {time: found for time, found in self._checksums.items() if not is_completed(time)}

    @property
    def has_ended(self) -> bool:
        """Whether the partition has ended."""
        return self._epochs.has_ended

    @property
    def lower(self) -> list[Time]:
        """The lower frontier; empty once the partition has ended."""
        return list(self._epochs.lower)

    def epochs(self) -> EpochStates:
        """Return the states of all epochs; the journal no longer changes them."""
        return EpochStates.at(self._domain, self.lower, self._checksums)

    def snapshot(self) -> bytes:
        """Return the journal without the position of the worker, for `restore`."""
        return pickle.dumps((self.lower, self._checksums), 5)

    @classmethod
    def restore(cls, domain: TimeDomain, snapshot: bytes) -> "Journal":
        """Return the journal of a snapshot, which must come from a log of this user."""
        journal = cls(domain)
        lower, checksums = pickle.loads(snapshot)  # noqa: S301 - from a file of this user
        journal.advance([(domain.minimum(), -1), *((time, 1) for time in lower)])
        for time, found in checksums.items():
            for checksum in found:
                journal.record(time, checksum)
        return journal
