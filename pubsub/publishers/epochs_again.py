"""The comparison, at one partition, of complete epochs that a job sends again with the records in the log.

The logs skip epochs of a job that begins again, or goes back, if all logs have them completely. This is right only if
the epochs' content is the same. So each partition adds up digests of the repeated records. The publication adds up the
sums of all partitions, and compares them with the logs.

Invariants:

- An epoch is compared only if all of it is sent again, and all of it is in the logs: no partition received a part of it
  before the snapshot, or has removed a part since.
- If nothing of an epoch is sent again, it is not compared.
- Void batches do not count.
- The log is read only once all of these epochs have been sent again.
- A thread computes digests; its input is bounded.

Source: seed "Gryphon exactly-once", section 2.2 (what is logged is published, and nothing else).
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tidewheel.progress import Antichain, MutableAntichain, Time, TimeDomain
from tidewheel.pubsub.exactly_once.record_digests import MODULUS, digest_of, digests
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, Place, place_or_event
from tidewheel.pubsub.messages.wire import LowerFrontierUpdate, WentBack, WorkerPosition
from tidewheel.pubsub.publishers.partition_log import ReplayedLog

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

KEPT_BYTES: Final = 16 * 1024 * 1024
"""The limit, in bytes, of received messages that are kept so that an error can name a record."""

_ROOM_BYTES = 16 * 1024 * 1024
_READ_BYTES = 1 << 20
_MOST_TEXT = 200

Sums: TypeAlias = Mapping[Time, int | None]
"""For each epoch the sum of the digests of its records; None if it is not known."""


class Difference(NamedTuple):
    """The difference in the number of records with one digest, in one partition.

    Attributes:
        surplus: how many more of these records the log has than were sent again.
        text: the `repr` of one such record.
    """

    surplus: int
    text: str


def differing_epochs(domain: TimeDomain, came: Sequence[Sums], logged: Sequence[Sums]) -> list[Time]:
    """Return the epochs whose content differs, earlier ones first."""
    differing: list[Time] = []
    for time in dict.fromkeys(time for sums in came for time in sums):
        first, second = (_sum(sums.get(time, 0) for sums in all_of) for all_of in (logged, came))
        if first != second and first is not None and second is not None:
            differing.append(time)
    return sorted(differing, key=lambda time: sum(domain.less_equal(other, time) for other in differing))


def first_difference(found: Sequence[Mapping[int, Difference]]) -> tuple[int, Difference] | None:
    """Return a partition with a difference, and the difference; None if there is none.

    ``found`` has the differences of each partition.
    """
    total: dict[int, int] = {}
    for differences in found:
        for digest, difference in differences.items():
            total[digest] = total.get(digest, 0) + difference.surplus
    for digest, count in sorted(total.items(), key=lambda item: -item[1]):
        for partition, differences in enumerate(found):
            if digest in differences and differences[digest].surplus * count > 0:
                return partition, differences[digest]._replace(surplus=count)
    return None


class EpochsAgain:
    """Compares the complete epochs that one partition's worker sends again.

    Args:
        end: the tick after the log's last tick when the worker began.
    """

    def __init__(self, domain: TimeDomain, position: WorkerPosition, end: int) -> None:
        self._domain = domain
        self._generation = position.generation.number
        self._lower = Antichain(domain, position.lower)
        self._complete = Antichain(domain, position.generation.complete)
        self._worker = MutableAntichain(domain)
        self._worker.update((time, 1) for time in position.lower)
        self._begun = {time for time, sent in position.sent.items() if sent}
        self._end = end
        self._kept: list[tuple[Time, EncodedMessage]] = []
        self._kept_bytes = 0
        self._lost: set[Time] = set()
        self._sums: dict[Time, int | None] = {}
        self._thread = ThreadPoolExecutor(1, "tidewheel-digests")
        self._last: Future[None] | None = None
        self._received_bytes = self._done_bytes = 0

    @property
    def have_come(self) -> bool:
        """True if the worker has passed all of these epochs."""
        return all(map(self._complete.less_equal, self._worker.frontier))

    def have_come_in(self, generation: int) -> bool:
        """Tell whether the worker has begun this generation, and `have_come`."""
        return self._generation >= generation and self.have_come

    def receive(self, message: EncodedMessage) -> None:
        event = place_or_event(message)
        if isinstance(event, LowerFrontierUpdate):
            self._worker.update(event.updates)
        elif isinstance(event, Place) and not self._complete.less_equal(event.time):
            self._received_bytes += message.size_bytes
            self._last = self._thread.submit(self._add, event.time, message)
            if self._kept_bytes < KEPT_BYTES:
                self._kept.append((event.time, message))
            else:
                self._lost.add(event.time)
            self._kept_bytes += message.size_bytes

    def _add(self, time: Time, message: EncodedMessage) -> None:
        self._sums[time] = _sum((self._sums.get(time, 0), _digest(message)))
        self._done_bytes += message.size_bytes

    @property
    def has_room(self) -> bool:
        return self._received_bytes - self._done_bytes < _ROOM_BYTES

    def came(self) -> Sums:
        """Wait, on any thread, for the digest sums of all epochs sent again, and return them."""
        if self._last is not None:
            self._last.result()
        return self._sums

    def logged(self, log: ReplayedLog, times: Collection[Time]) -> Sums:
        """Return the digest sums of logged epochs, on any thread; raise LogError if the log cannot be read."""
        first, unknown = self._begin(log, times)
        standing = self._standing(log, first, {*times} - unknown, _digest)
        sums = {time: _sum(digest for _, digest in batches) for time, batches in standing.items()}
        return {**sums, **dict.fromkeys(unknown)}

    def differences(self, log: ReplayedLog, time: Time) -> dict[int, Difference]:
        """Return, by digest, the differences between the log and the records of an epoch sent again.

        The result is empty if not all repeated records are kept.

        Raises:
            LogError: the log cannot be read.
            DeliveryError: this process cannot decode a batch.
        """
        if time in self._lost:
            return {}
        standing = self._standing(log, self._begin(log, [time])[0], {time}, lambda message: message)
        found: dict[int, Difference] = {}
        both = [(message, 1) for _, message in standing.get(time, ())]
        for message, sign in both + [(message, -1) for kept, message in self._kept if kept == time]:
            all_of, record = digests(message)
            for number, digest in enumerate(all_of):
                before = found.get(digest)
                text = repr(record(number))[:_MOST_TEXT] if before is None else before.text
                found[digest] = Difference(sign + (0 if before is None else before.surplus), text)
        return {digest: difference for digest, difference in found.items() if difference.surplus}

    def _begin(self, log: ReplayedLog, times: Collection[Time]) -> tuple[int, set[Time]]:
        unknown = {*times}
        first = 0
        for first, epochs in log.beginnings(self._domain):  # noqa: B007 - used behind the loop
            unknown = {time for time in times if epochs.is_completed(time) or time in epochs.active}
            if not unknown:
                break
        passed = {time for time in times if not self._lower.less_equal(time)}
        return first, unknown | passed | self._begun.intersection(times)

    def _standing(
        self, log: ReplayedLog, first: int, times: Collection[Time], value: Callable[[EncodedMessage], T]
    ) -> dict[Time, list[tuple[int, T]]]:
        found: dict[Time, list[tuple[int, T]]] = {}
        while first < self._end:
            messages, first = log.read(first, self._end, _READ_BYTES)
            for tick, message in messages:
                event = place_or_event(message)
                if isinstance(event, Place) and event.time in times:
                    found.setdefault(event.time, []).append((tick, value(message)))
                elif isinstance(event, WentBack):
                    lower = Antichain(self._domain, event.lower)
                    for time in filter(lower.less_equal, found):
                        found[time] = [one for one in found[time] if one[0] <= event.number]
        return found


def _digest(message: EncodedMessage) -> int | None:
    """Return the digest sum of a batch; None if it has none, for example because this process lacks a class."""
    try:
        return digest_of(message)
    except Exception as error:  # noqa: BLE001 - the code of records runs here
        _LOG.debug("records that came again cannot be compared: %s", error)
        return None


def _sum(digests: Iterable[int | None]) -> int | None:
    total = 0
    for digest in digests:
        if digest is None:
            return None
        total += digest
    return total % MODULUS
