"""A pubend with its log: it logs a worker's messages, and sends them to its children once they are durable.

All calls are on one thread. The log has its own thread, and calls ``later`` with the outcomes. If the log is in an
object store, other threads read it. The log has all that a restart needs: messages, reservations of silence, and the
positions of durable subscriptions.

Source: seed "Gryphon exactly-once", section 2.2.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from msgspec import structs

from tidewheel.progress import TimeDomain
from tidewheel.pubsub.errors import DeliveryError
from tidewheel.pubsub.exactly_once.fanout import Outgoing
from tidewheel.pubsub.exactly_once.journal import Journal
from tidewheel.pubsub.exactly_once.pubend import CACHE_BYTES, NotReady, Pubend
from tidewheel.pubsub.exactly_once.subscription import prefix_end
from tidewheel.pubsub.exactly_once.subscriptions import Subscriptions
from tidewheel.pubsub.log.errors import LogError, StoreFailed
from tidewheel.pubsub.log.headers import LogIdentity
from tidewheel.pubsub.log.opening import open_log
from tidewheel.pubsub.log.segmented_log import SEGMENT_BYTES
from tidewheel.pubsub.messages.delivery_messages import Ack, Begun, ConsolidatedAck, Nack, Ranges, Stranger
from tidewheel.pubsub.messages.encoded_message import EncodedMessage, encode, size_of
from tidewheel.pubsub.messages.filters import Filter
from tidewheel.pubsub.messages.wire import History, InitialFrontierSnapshot, Rejected, WorkerPosition
from tidewheel.pubsub.publishers.confirmed import Confirmed, Unconfirmed
from tidewheel.pubsub.publishers.epochs_again import EpochsAgain
from tidewheel.pubsub.publishers.log_reads import LogReads
from tidewheel.pubsub.publishers.partition_log import (
    END,
    PartitionLog,
    Step,
    cursor_entry,
    last_messages,
    message_entry,
    new_messages,
    recover,
    removed_messages_end,
    snapshot,
)
from tidewheel.pubsub.publishers.partition_writer import PartitionWriter
from tidewheel.pubsub.publishers.promised_silence import TICKS_A_SECOND, PromisedSilence
from tidewheel.storage.files import FILES, Files

_CLOSE_WITHIN_S = 10.0


class DurablePubend:
    """One partition of a topic.

    Args:
        later: schedules a call on the pubend's thread; any thread may use it.
        clock: returns seconds since 1970; it may go back.
        awaited: the number of subscriptions to wait for before the first message; also an attribute, which becomes 0
            once they have begun.
        cache_bytes: how many bytes of the latest messages stay in memory.
        has_history: whether the topic has history; then a new subscription learns the last complete epoch.

    Attributes:
        messages, message_bytes, nacks: the counts of logged messages since the start, of their bytes, and of children's
            questions.
        log, reads: the log, and reads of it; read-only.
        room_for: as `Log.room_for`, for payloads from the worker.
        is_eager: whether the log is in memory, and has no thread.
        written_tick: the tick of the last received message, durable once `writer.durable_tick` reaches it.
        told: the states of epochs, by durable messages alone.
        again: the complete epochs that the worker sends again, until they are compared.
    """

    def __init__(  # noqa: PLR0913 - the settings of a shell, one by one
        self,
        directory: Path | str,
        identity: LogIdentity,
        domain: TimeDomain,
        *,
        tell: Callable[[list[Outgoing]], None],
        later: Callable[[Callable[[], None]], None],
        clock: Callable[[], float] = time.time,
        awaited: int = 0,
        wait_s: float = 0.0,
        cache_bytes: int = CACHE_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        has_history: bool = False,
        files: Files = FILES,
    ) -> None:
        self.messages = self.message_bytes = self.nacks = 0
        self._number = identity.partition
        self._domain = domain
        self._tell = tell
        self._clock = clock
        self._has_history = has_history
        first = snapshot(Journal(domain), 0, 0, {})
        with ExitStack() as opened:
            self.log = open_log(directory, identity, first, segment_bytes, wait_s=wait_s, files=files)
            opened.callback(self.log.close)
            self.room_for = self.log.room_for
            self.is_eager = self.log.is_in_memory
            self.reads = LogReads(self.log, later)
            recovered = recover(self.log, domain)
            self._journal = recovered.journal
            self.told = self._journal.epochs()
            self._untold: deque[tuple[int, Step]] = deque()
            self._unconfirmed = Unconfirmed()
            self.written_tick = self.log.last_tick
            self._message_end = recovered.message_end
            self.awaited = 0 if self._message_end else awaited
            self._trim_to = 0
            self.again: EpochsAgain | None = None
            reserved = max(recovered.reserved, self.log.last_tick + 1)
            self._pubend = Pubend(
                identity.partition,
                identity.partitions,
                PartitionLog(self.reads),
                size_of,
                cache_bytes=cache_bytes,
                next_tick=reserved,
                first_tick=self.log.removed_end,
                message_end=recovered.message_end,
                lost_end=removed_messages_end(self.log),
            )
            where = f"topic {identity.topic!r}, partition {identity.partition}"
            self.subscriptions = Subscriptions(self._pubend, recovered.standings, where)
            self.writer = PartitionWriter(
                self.log,
                lambda: snapshot(self._journal, self._silence.reserved, self._message_end, self.subscriptions.noted),
                self._logged,
                later,
            )
            self._silence = PromisedSilence(self._pubend, self.writer, tell, self._now, reserved)
            if recovered.lacks_end:
                self._write([END])
            opened.pop_all()

    def begin(self, position: WorkerPosition | None = None) -> None:
        """Call `Journal.begin`, and log the worker's return if there was one.

        Raise as `Journal.begin` does, or LogError.
        """
        self._check()
        returned = self._journal.begin(position, self.written_tick)
        self._unconfirmed = Unconfirmed()
        self.again = None
        if returned is not None:
            again = EpochsAgain(self._domain, position or WorkerPosition([], {}), self._message_end)
            self.again = None if again.have_come else again
            self._write([Step(encode(returned), None, returned)])

    def feed(self, sent: Sequence[EncodedMessage]) -> None:
        """Receive messages of the worker, in order; skip messages that are logged already.

        Raises:
            ProtocolError: a message is impossible, or differs from the logged one; later messages are not received.
            LogError: the log has failed.
        """
        self._check()
        steps: list[Step] = []
        try:
            for message in sent:
                steps += new_messages(self._journal, message, is_in_memory=self.log.is_in_memory)
                if self.again is not None:
                    self.again.receive(message)
        finally:
            size_bytes = self._write(steps)
        confirmed = Confirmed(len(sent), size_bytes, self._journal.reached)
        self._unconfirmed.add(self.written_tick, confirmed, is_sure=self._journal.is_sure)
        if self.log.is_in_memory:
            os.sched_yield()  # Linux may leave the worker waiting for this core, though another one is idle

    def conclude(self) -> None:
        """End the partition, since all partitions have received everything.

        Idempotent; raise LogError if the log has failed.
        """
        self._check()
        self._write(last_messages(self._journal))

    def _write(self, steps: Sequence[Step]) -> int:
        assigned = self._pubend.assign([step.message for step in steps], self._now())
        written = [(tick, step) for (tick, _), step in zip(assigned, steps, strict=True)]
        size_bytes = sum(size_of(step.message) for step in steps)
        self._untold += written
        for tick, step in written:
            step.note(self._journal, tick)
        if written:
            self.written_tick = written[-1][0]
            self._message_end = self.written_tick + 1
            self.messages += len(written)
            self.message_bytes += size_bytes
        self.writer.write(message_entry(tick, step) for tick, step in written)
        return size_bytes

    def confirmed(self) -> Confirmed:
        """Return the confirmation for messages that have become durable since the last call."""
        return self._unconfirmed.take(self.writer.durable_tick)

    @property
    def has_room(self) -> bool:
        """True if `feed` may be called: earlier messages are on their way to the disk; no subscription is awaited."""
        return self.writer.has_room and not self.awaited and (self.again is None or self.again.has_room)

    @property
    def error(self) -> LogError | None:
        """The reason why nothing more is published; None if the log works.

        Messages that were not durable may be lost.
        """
        return self.writer.error

    def look(self, *, forgets: bool = True) -> None:
        """Announce the silence that is due, and log the state of subscriptions.

        With ``forgets``, forget acknowledged messages.

        Raises:
            LogError: the log accepts nothing more.
        """
        self._check()
        self._silence.look()
        if self.writer.has_room:
            self._note()
        if forgets and (self.again is None or self.writer.full is not None):
            self._trim_to = min(
                self._pubend.forget(self.subscriptions.needed_from), self.subscriptions.needed_after_restart
            )

    def _note(self) -> None:
        due = self.subscriptions.due()
        if due:
            tick = self._pubend.pass_over(self._now())
            entries = [cursor_entry(tick, cursor) for cursor in due]
            self.writer.write(entries, partial(self.subscriptions.logged, due), is_note=True)

    @property
    def is_trim_due(self) -> bool:
        return self.log.has_before(self._trim_to)

    def trim(self) -> int:
        """Remove unneeded files, and return their size in bytes; this waits for the disk, on any thread."""
        return self.log.trim(self._trim_to)

    def resume(self) -> None:
        if self.writer.is_stuck and not self.writer.has_notes:
            self._note()  # the publisher can then learn which files are not needed
        self.writer.resume()

    def expire(self, before_s: float) -> None:
        """If there are no subscriptions, forget files older than ``before_s``, in seconds since 1970."""
        if self.subscriptions.known:
            return
        ends = (one.last_tick + 1 for one in self.log.segments() if one.ended_s is not None and one.ended_s < before_s)
        end = max(ends, default=0)
        if end > self._pubend.first_tick:
            self._pubend.forget(end)

    def _logged(self, tick: int) -> None:
        while self._untold and self._untold[0][0] <= tick:
            self._untold.popleft()[1].take(self.told)
        self._tell(self._pubend.logged(tick))

    def _now(self) -> int:
        return max(0, int(self._clock() * TICKS_A_SECOND))

    def _check(self) -> None:
        if self.writer.error is not None:
            raise self.writer.error

    def join(self, child: str, where: Filter | None = None, *, awaits_silence: bool = True) -> None:
        self._pubend.fanout.join(child, where, awaits_silence=awaits_silence)

    def leave(self, child: str) -> None:
        self._pubend.fanout.leave(child)

    def nack(self, child: str, nack: Nack) -> None:
        """Answer a child's nack, within its room; if the records are damaged, answer with the error."""
        try:
            self._silence.answer(child, nack)
        except NotReady as missing:
            self.reads.fetch(missing, partial(self.nack, child, nack))
            return
        except StoreFailed:
            return  # the child asks again
        except DeliveryError as error:
            self._pubend.fanout.leave(child)
            self._tell([Outgoing(child, Rejected(nack.pubend, str(error)))])
        self.nacks += 1

    def subscribe(
        self,
        name: str,
        reader: str,
        start: int | None = None,
        *,
        durable: bool,
        again: bool = False,
        acknowledged: Ranges = (),
    ) -> Begun:
        before = self.subscriptions.reader_of(name)
        begun = self.subscriptions.subscribe(
            name, reader, start, self._frontiers_at, durable=durable, again=again, acknowledged=acknowledged
        )
        if not begun.frontiers.lower:  # a crash came between the last move and the end: this reader begins at the end
            self.subscriptions.ack(Ack(self._number, {reader: ((0, self._message_end),)}))
        has_all = self.subscriptions.count(self.subscriptions.known) >= self.awaited
        self.awaited = 0 if has_all else self.awaited  # stays 0: the worker learns it only once
        self._note()
        if before != reader:
            self._tell_stranger(before)
        if self._has_history and not prefix_end(begun.acknowledged):
            as_of = tuple(time - 1 for time in self.told.lower if time)
            begun = replace(begun, frontiers=structs.replace(begun.frontiers, history=History(as_of, ())))
        return begun

    def _tell_stranger(self, reader: str | None) -> None:
        if reader is not None:
            self._tell(
                [Outgoing(child, Stranger(self._number, reader)) for child in self._pubend.fanout.reaching(reader)]
            )

    def _frontiers_at(self, tick: int) -> InitialFrontierSnapshot:
        epochs = self.told
        if tick < self._pubend.told_end:
            read = partial(recover, self.log, self._domain, tick - 1)
            epochs = self.reads.get(("frontiers", tick), read).journal.epochs()
        return epochs.snapshot()

    def unsubscribe(self, reader: str, acknowledged: Ranges = (), everywhere: tuple[Ranges, ...] = ()) -> None:
        self.subscriptions.leave(reader, acknowledged, everywhere)
        self._note()

    def end(self, name: str) -> None:
        """End a subscription for good, and tell its reader."""
        reader = self.subscriptions.reader_of(name)
        self.subscriptions.end(name)
        self._note()
        self._tell_stranger(reader)

    def abandon(self, name: str) -> None:
        """Stop keeping messages for a durable subscription; a reader that then misses messages is told."""
        self.subscriptions.abandon(name)
        self._note()

    def ack(self, child: str, ack: Ack | ConsolidatedAck) -> None:
        strangers = self.subscriptions.ack(ack, child)
        self._tell([Outgoing(child, Stranger(ack.pubend, reader)) for reader in strangers])

    def unread(self) -> list[str]:
        end = self._message_end if self.error is None else self._pubend.message_end
        return self.subscriptions.needing(end)

    def held_bytes(self, name: str) -> int:
        """Estimate the bytes of the log that a subscription has not acknowledged."""
        needed_from = self.subscriptions.known[name].acknowledged.prefix_end
        return sum(segment.size for segment in self.log.segments() if segment.last_tick >= needed_from)

    def close(self) -> None:
        """Make messages and acknowledgements durable if the disk has room. Release the log, or raise LogError."""
        self._note()
        self.reads.close()
        self.writer.close(_CLOSE_WITHIN_S)
