"""Sending dead letters again, from a topic to an inbox of a running job: the command ``tidewheel resend``.

Each letter is sent with a key of its own, by which the job counts it once, however often the command is started. A
letter is acknowledged only when a snapshot of the job has its record.
"""

import argparse
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from reprlib import repr as short
from typing import Any, Final

from tidewheel.batches.batches import Batch, is_arrow, is_numpy
from tidewheel.display.figures import plain
from tidewheel.operators.base.failed_record import FailedRecord
from tidewheel.operators.keys.record_hash import record_hash
from tidewheel.pubsub.catalog.local_catalog import LOCAL_CATALOG
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.messages.events import Epoch
from tidewheel.pubsub.subscribers.subscribing import find_topic, subscribe
from tidewheel.pubsub.subscribers.subscription import Subscription
from tidewheel.pubsub.subscribers.subscription_options import Durable
from tidewheel.runtime.engines.job_by_name import InputByName, Sent, job
from tidewheel.runtime.errors import JobRolledBack, WouldBlock

NAME: Final = "tidewheel resend"
_MOST_PENDING: Final = 1_000
SAVED_WITHIN_S: Final = 300.0
_LOOKS_EVERY_S: Final = 0.1


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="a topic of dead letters")
    parser.add_argument("job", metavar="JOB", help="the job that receives their records, or its dataflow")
    parser.add_argument("input", metavar="INPUT", help="an inbox of that job, flow.inbox(INPUT)")
    parser.add_argument("--dry-run", action="store_true", help="print the letters; send and acknowledge nothing")
    parser.add_argument(
        "--name",
        default=NAME,
        help=f"the durable subscription of a topic with a log, which knows what was sent (default: {NAME})",
    )
    parser.add_argument(
        "--idle",
        metavar="SECONDS",
        type=float,
        default=10.0,
        help="end when no letter has come for so long; inf: when the topic ends (default: 10)",
    )


@dataclass(slots=True)
class _Pending:
    """An epoch of letters that no snapshot of the job is known to have."""

    epoch: Epoch
    records: list[tuple[str, Batch]]
    sent: list[Sent] = field(default_factory=list)


def resend(options: argparse.Namespace, where: Callable[[Any], bool] | None, say: Callable[[str], None]) -> None:
    """Send the letters of a topic again; print each, and their number in the end.

    Raises:
        DeliveryError: the topic has other records than letters, the inbox does not take one, or the job does not save
            them in time.
        JobError: there is no such job or inbox, or it has ended.
        UnknownTopic: no job published the topic in time.
    """
    info = LOCAL_CATALOG.lookup(options.topic) or find_topic(options.topic, options.timeout)
    has_log = info.delivery == "exactly_once"
    target = job(options.job, timeout_s=options.timeout).input(options.input)
    sending = _Sending(target, options.topic if has_log else f"{options.topic} of {info.job}", where, say)
    durable = Durable(options.name, "manual") if has_log else None
    start: Any = "earliest" if has_log else "live"
    with subscribe(options.topic, timeout_s=options.timeout, durable=durable, start=start) as topic:
        for epoch in _epochs(topic, None if math.isinf(options.idle) else options.idle):
            sending.take(topic, epoch, acknowledges=has_log, is_dry=options.dry_run)
        sending.settle(topic, 0, acknowledges=has_log)
    letters = "1 letter" if sending.count == 1 else f"{sending.count} letters"
    done = "would be sent" if options.dry_run else "sent"
    say(f"{letters} {done} to input {target.name!r} of job {target.job.name!r}")


def _epochs(topic: Subscription, idle_s: float | None) -> Iterator[Epoch]:
    try:
        yield from topic.epochs(timeout_s=idle_s)
    except TimeoutError:
        return


class _Sending:
    """The letters on their way to one inbox.

    Args:
        origin: what the keys of letters are unique in.
        where: tells which letters to send; None for all.
    """

    def __init__(
        self, target: InputByName, origin: str, where: Callable[[Any], bool] | None, say: Callable[[str], None]
    ) -> None:
        self._target = target
        self._origin = origin
        self._where = where
        self._say = say
        self._pending: deque[_Pending] = deque()
        self.count = 0

    def take(self, topic: Subscription, epoch: Epoch, *, acknowledges: bool, is_dry: bool) -> None:
        """Send the letters of an epoch."""
        found = [(key, letter) for key, letter in self._letters(epoch) if self._is_wanted(letter)]
        for _, letter in found:
            where, error, record = map(plain, (letter.where, letter.error, repr(letter.record)))
            self._say(f"{epoch.time!r}\t{where}\t{error}\t{record}")
        self.count += len(found)
        if not is_dry:
            pending = _Pending(epoch, [(key, _batch(letter.record)) for key, letter in found])
            self._send(pending)
            self._pending.append(pending)
            self.settle(topic, _MOST_PENDING, acknowledges=acknowledges)

    def settle(self, topic: Subscription, most: int, *, acknowledges: bool) -> None:
        """Acknowledge the epochs that snapshots have, and wait until at most so many letters are left.

        What the job has lost, since it has gone back to a snapshot, is sent again.
        """
        until = time.monotonic() + SAVED_WITHIN_S
        while self._pending:
            first = self._pending[0]
            try:
                is_saved = all(sent.is_saved() for sent in first.sent)
            except JobRolledBack:
                self._send(first)
                continue
            if is_saved:
                if acknowledges:
                    topic.acknowledge(first.epoch)
                self._pending.popleft()
            elif sum(len(pending.sent) for pending in self._pending) <= most:
                return
            elif time.monotonic() > until:
                raise DeliveryError(
                    f"topic {topic.topic!r}: no snapshot of job {self._target.job.name!r} has the letters of epoch "
                    f"{first.epoch.time!r} within {SAVED_WITHIN_S:g} s. They are not acknowledged: send them again",
                    topic=topic.topic,
                )
            else:
                time.sleep(_LOOKS_EVERY_S)

    def _send(self, pending: _Pending) -> None:
        pending.sent = []
        for key, batch in pending.records:
            try:
                pending.sent.append(self._target.send(batch, key=key, timeout_s=SAVED_WITHIN_S))
            except (WouldBlock, TimeoutError) as error:
                raise DeliveryError(
                    f"the letters of epoch {pending.epoch.time!r} are not acknowledged: {error}. Start the command "
                    "again when the job reads: a letter counts once"
                ) from error
            except TypeError as error:
                raise DeliveryError(
                    f"a letter of epoch {pending.epoch.time!r} is not sent: {error}. It has {short(batch)}. Leave "
                    "out such letters with --where, as --where where!=parse, or mend them in a program"
                ) from error

    def _is_wanted(self, letter: FailedRecord[Any]) -> bool:
        try:
            return self._where is None or self._where(letter)
        except (ValueError, TypeError) as error:
            raise DeliveryError(f"--where: {error}") from error

    def _letters(self, epoch: Epoch) -> Iterator[tuple[str, FailedRecord[Any]]]:
        """Yield each letter of an epoch with its key, whatever the order of its letters is."""
        seen: Counter[str] = Counter()
        for letter in epoch.records:
            if not isinstance(letter, FailedRecord):
                raise DeliveryError(
                    f"{self._origin!r} has {short(letter)}, which is no dead letter: name the topic to which "
                    "flow.dead_letters() is published"
                )
            text = repr((self._origin, epoch.time, _hash(letter.record), *letter[1:]))
            seen[text] += 1
            yield sha256(f"{text} {seen[text]}".encode()).hexdigest(), letter


def _hash(record: Any) -> object:
    try:
        return record_hash(record)
    except TypeError:
        return repr(record)


def _batch(record: Any) -> Batch:
    """Return the records of a letter: those of a table or array, which a function of a batch has refused, or one."""
    return record if is_arrow(record) or is_numpy(record) else [record]
