"""The history of one partition: all changes so far, which a new subscriber receives first. No I/O.

Invariants:

- The kept messages add up to the changes so far, each counted once.
- A batch of an incomplete epoch is kept unchanged, with its number, so that subscribers know which batches are void
  when the job goes back.
- The changes of complete epochs are kept as one sum, at the last complete time, and as newer messages. These are added
  to the sum once they are as large as the sum. So the additions are linear in the changes, amortised.
"""

from collections.abc import Callable
from operator import itemgetter

from tidewheel.progress import ProtocolError, Time, TimeDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.changes import summed
from tidewheel.pubsub.messages.delivery_options import Where
from tidewheel.pubsub.messages.wire import DataMessage, History

_LEAST_BYTES = 256 * 1024
_NEVER_VOID = -1


class PartitionHistory:
    """The changes of one partition.

    Args:
        domain: the times of the topic, which have a total order.
        number: the number of the last message in ``history``.

    >>> from tidewheel.progress import IntegerDomain
    >>> from tidewheel.pubsub.messages.encoded_message import decode_batch, encode_batch
    >>> history = PartitionHistory(IntegerDomain())
    >>> for number, changes in enumerate(([("a", 1)], [("a", 1), ("b", 1)], [("b", -1)])):
    ...     history.receive(number, encode_batch(number, changes))
    >>> history.advance(lambda time: time < 2)
    >>> [(number, message.time, decode_batch(message)) for number, message in history.told().messages]
    [(-1, 1, [('a', 2), ('b', 1)]), (2, 2, [('b', -1)])]
    """

    def __init__(self, domain: TimeDomain, history: History | None = None, number: int = 0) -> None:
        self._domain = domain
        self._as_of: tuple[Time, ...] = () if history is None else history.as_of
        self._complete: list[DataMessage] = []
        self._open: dict[Time, list[tuple[int, DataMessage]]] = {}
        for at, message in () if history is None else history.messages:
            if at == _NEVER_VOID:
                self._complete.append(message)
            else:
                self.receive(number, message)
        self._sum_bytes = self._waiting_bytes = 0

    def receive(self, number: int, message: DataMessage) -> None:
        self._open.setdefault(message.time, []).append((number, message))

    def advance(self, is_completed: Callable[[Time], bool]) -> None:
        """Record that the frontier has moved.

        Raises:
            ProtocolError: a batch does not have changes.
        """
        for time in [time for time in self._open if is_completed(time)]:
            messages = [message for _, message in self._open.pop(time)]
            self._complete += messages
            self._waiting_bytes += sum(len(message.payload) for message in messages)
            self._as_of = self._later((time,))
        if self._waiting_bytes > max(_LEAST_BYTES, self._sum_bytes):
            self._add_up()

    def _later(self, time: tuple[Time, ...]) -> tuple[Time, ...]:
        is_later = not self._as_of or (time and self._domain.less_equal(self._as_of[0], time[0]))
        return time if is_later else self._as_of

    def _add_up(self) -> None:
        if self._waiting_bytes or len(self._complete) > 1:
            try:
                self._complete = [summed(self._as_of[0], self._complete)]
            except DeliveryError as error:
                raise ProtocolError(str(error)) from error
        self._sum_bytes = sum(len(message.payload) for message in self._complete)
        self._waiting_bytes = 0

    def told(self, where: Where | None = None) -> History:
        """Return the messages for a new subscriber with the condition ``where``.

        Raises:
            DeliveryError: the condition raised, or does not fit.
            ProtocolError: a batch does not have changes.
        """
        self._add_up()
        kept = self.kept
        if where is None:
            return kept
        told = [(number, where.of(message)) for number, message in kept.messages]
        return History(kept.as_of, tuple((number, part) for number, part in told if part is not None))

    @property
    def kept(self) -> History:
        """The whole history, unchanged. Complexity: O(messages), not O(records), so snapshots are fast."""
        complete = [(_NEVER_VOID, message) for message in self._complete if message.records]
        batches = sorted((one for found in self._open.values() for one in found), key=itemgetter(0))
        return History(self._as_of, (*complete, *batches))

    def add(self, other: History) -> None:
        """Add the history of another partition; its batches belong to this partition from now on."""
        added = PartitionHistory(self._domain, other)
        self._as_of = self._later(added._as_of)
        self._complete += added._complete
        for messages in added._open.values():
            for number, message in messages:
                self.receive(number, message)
